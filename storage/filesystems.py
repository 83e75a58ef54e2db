"""Tells whether a folder is on a network file system, where SQLite's write-ahead log must not be used."""

from __future__ import annotations

from pathlib import Path

import psutil

_NETWORK = frozenset(
    {
        "9p",
        "afpfs",
        "afs",
        "beegfs",
        "ceph",
        "cifs",
        "davfs",
        "davfs2",
        "glusterfs",
        "gpfs",
        "lustre",
        "ncpfs",
        "nfs",
        "nfs3",
        "nfs4",
        "ocfs2",
        "smb",
        "smb2",
        "smb3",
        "smbfs",
        "webdav",
    }
)


def network_file_system(folder: Path) -> str | None:
    """The name of the network file system that ``folder`` is on (``nfs4``, ``cifs``, ``fuse.sshfs``), None for a local disk."""
    resolved = folder.resolve()
    if str(resolved).startswith("\\\\"):
        return "a network share"
    mounted = [part for part in psutil.disk_partitions(all=True) if resolved.is_relative_to(part.mountpoint)]
    if not mounted:
        return None
    part = max(enumerate(mounted), key=lambda place: (len(place[1].mountpoint), place[0]))[1]
    kind = part.fstype.lower()
    return kind if kind in _NETWORK or "sshfs" in kind or "remote" in part.opts.split(",") else None
