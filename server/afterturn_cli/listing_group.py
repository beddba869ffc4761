"""A group of commands whose own name lists: `afterturn rounds --json` is `afterturn rounds list --json`."""

from typing import TYPE_CHECKING

from typer.core import TyperGroup

if TYPE_CHECKING:  # typer brings its own click and shows this type nowhere public
    from typer._click.core import Context


class ListingGroup(TyperGroup):
    """Runs `list` when no command is named."""

    def parse_args(self, ctx: "Context", args: list[str]) -> list[str]:
        """Put `list` where a command is missing; `--help` stays the group's own."""
        if not args or (args[0].startswith("-") and args[0] != "--help"):
            args = ["list", *args]
        return super().parse_args(ctx, args)
