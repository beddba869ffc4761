"""The admin API: what the dashboard and the command line use, and nothing else."""
