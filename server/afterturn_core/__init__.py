"""What every Afterturn process shares: settings, tables, state changes, engine client, broker."""
