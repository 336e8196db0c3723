"""Words errors of files and disks as clauses that name the path. Pure."""

from __future__ import annotations

import errno
import os
from typing import Final

_CLAUSES: Final = {
    errno.EROFS: "{path} is on a read-only file system",
    errno.ENOSPC: "the disk of {path} is full",
    errno.EDQUOT: "the disk quota for {path} is used up",
    errno.EACCES: "this user may not write {path}",
    errno.EPERM: "this user may not write {path}",
    errno.ENOENT: "{path} does not exist",
    errno.ENOTDIR: "a file is in the place of a folder of {path}",
    errno.EIO: "the disk of {path} fails",
}


def worded(error: Exception) -> str:
    """Why something could not be written, without the number of the error."""
    if not isinstance(error, OSError):
        return str(error)
    if error.filename is None:
        return error.strerror or str(error)
    clause = _CLAUSES.get(error.errno or 0)
    if clause is None:
        return f"{error.strerror or os.strerror(error.errno or 0)}: {error.filename}"
    return clause.format(path=error.filename)
