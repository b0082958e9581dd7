"""Reads the overview of a group with nntplib, as newsreaders made with it do.

overview.py PORT GROUP: counts the rows, each of which must have its size and its lines as numbers.
"""

import nntplib
import sys

port, group = sys.argv[1:]
with nntplib.NNTP("127.0.0.1", int(port)) as server:
    _, count, first, last, _ = server.group(group)
    _, rows = server.over((first, last))
    assert len(rows) == count, (len(rows), count)
    for number, row in rows:
        assert int(row[":bytes"]) > 100 and row[":lines"] == "1", (number, row)
print(f"{len(rows)} rows, bytes and lines in each")
