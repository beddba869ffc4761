"""An adapter in a zip file: three files by name, nothing else, and never more than a given size."""

import errno
import stat
import zipfile
import zlib
from pathlib import Path

from .adapter_files import FILES, MAX_TEXT_BYTES, WEIGHTS
from .errors import AdapterError, BodyTooLarge

_CHUNK_BYTES = 1 << 20
_PACKINGS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)


def unpack(archive: Path, folder: Path, limit: int) -> None:
    """Write the three files of an archive into a folder that is there.

    Entries are known by their exact names, so that none can lead out of the folder; `limit` counts the
    unpacked bytes of the weights, whatever the archive says of itself.

    Raises:
        AdapterError: it is no archive of an adapter; BodyTooLarge: more than `limit` bytes.
    """
    try:
        with zipfile.ZipFile(archive) as opened:
            entries = opened.infolist()
            for entry in entries:
                _check(entry)
            names = sorted(entry.filename for entry in entries)
            if names != sorted(FILES):
                raise AdapterError(f"the archive must hold {', '.join(FILES)}, each once")
            for entry in entries:
                _copy(opened, entry, folder, limit if entry.filename == WEIGHTS else MAX_TEXT_BYTES)
    except (zipfile.BadZipFile, EOFError, NotImplementedError, RuntimeError, UnicodeDecodeError) as error:
        raise AdapterError(f"the body is no sound zip file: {str(error)[:100]}") from None
    except OSError as error:
        if error.errno != errno.EINVAL:  # a place before the file's beginning; others are the disk's
            raise
        raise AdapterError("the body is no sound zip file: it points outside of itself") from None
    except zlib.error:
        raise AdapterError("the body is no sound zip file: its data cannot be unpacked") from None


def _check(entry: zipfile.ZipInfo) -> None:
    shown = repr(entry.filename[:80])
    if entry.filename not in FILES:
        raise AdapterError(f"the archive holds {shown}, which is no part of an adapter")
    kind = stat.S_IFMT(entry.external_attr >> 16)
    if kind not in (0, stat.S_IFREG):
        raise AdapterError(f"{shown} in the archive is no plain file")
    if entry.flag_bits & 0x1 or entry.compress_type not in _PACKINGS:
        raise AdapterError(f"{shown} in the archive is encrypted, or packed in a way that is not supported")


def _copy(opened: zipfile.ZipFile, entry: zipfile.ZipInfo, folder: Path, limit: int) -> None:
    size = 0
    with opened.open(entry) as source, (folder / entry.filename).open("xb") as target:
        while chunk := source.read(_CHUNK_BYTES):
            size += len(chunk)
            if size > limit:
                raise BodyTooLarge(f"{entry.filename} in the archive is larger than {limit} bytes")
            target.write(chunk)
