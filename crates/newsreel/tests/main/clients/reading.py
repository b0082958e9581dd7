"""Reads everything that a server has with nntplib and compares it with the files that were fed.

reading.py PORT DIR [tls|starttls USER PASSWORD AUTHORITY]: DIR holds the articles, one a file, LF line ends; AUTHORITY is the
file of the certificate to trust. Ends with an exception at the first difference.
"""

import datetime
import nntplib
import os
import ssl
import sys

CHANGED = (b"path", b"xref")  # by the server, on the way


def fed(directory):
    """Message-ID -> the copies that were fed; the server has one of them."""
    articles = {}
    for folder, _, names in os.walk(directory):
        for name in names:
            with open(os.path.join(folder, name), "rb") as file:
                head, body = file.read().split(b"\n\n", 1)
            head = head.split(b"\n")
            key = value(head, b"message-id").strip().decode("ascii")
            articles.setdefault(key, []).append((head, body.split(b"\n")[:-1]))
    return articles


def headers(lines):
    """The headers as lists of their lines, folds with them."""
    unfolded = []
    for line in lines:
        if line[:1] in (b" ", b"\t"):
            unfolded[-1].append(line)
        else:
            unfolded.append([line])
    return unfolded


def name(header):
    return header[0].split(b":", 1)[0].lower()


def value(head, wanted):
    """A header as overview has it (RFC 3977 section 8.3.2): without the first blank, unfolded, TAB as space."""
    for header in headers(head):
        if name(header) == wanted:
            text = b"".join(header).split(b":", 1)[1]
            text = text[1:] if text[:1] in (b" ", b"\t") else text
            return text.replace(b"\t", b" ").replace(b"\0", b" ")
    return b""


def same_head(got, expected):
    def untouched(head):
        return [header for header in headers(head) if name(header) not in CHANGED]

    assert untouched(got) == untouched(expected), (got, expected)
    assert value(got, b"path").endswith(b"!" + value(expected, b"path").strip()), got


def check_session(server, greeting):
    assert server.getwelcome().startswith(greeting), server.getwelcome()
    capabilities = server.getcapabilities()
    for capability in ("READER", "POST", "HDR", "OVER", "LIST", "NEWNEWS"):
        assert capability in capabilities, capabilities
    _, date = server.date()
    now = datetime.datetime.now(datetime.timezone.utc).replace(tzinfo=None)
    assert abs(date - now) < datetime.timedelta(minutes=1), (date, now)
    _, help_lines = server.help()
    assert any("ARTICLE" in line for line in help_lines), help_lines


def check_lists(server):
    """Every list names the same groups; gives the group names and those with articles."""
    _, groups = server.list()
    _, descriptions = server.descriptions("*")
    names = [group.group for group in groups]
    assert len(set(names)) == len(names), names
    assert set(descriptions) <= set(names), descriptions
    assert descriptions["misc.test"] == "For trying things out", descriptions
    yesterday = datetime.datetime.now() - datetime.timedelta(days=1)
    _, new = server.newgroups(yesterday)
    assert sorted(group.group for group in new) == sorted(names), new
    for group in groups:
        _, count, first, last, _ = server.group(group.group)
        assert (first, last) == (int(group.first), int(group.last)), group
        assert count == last - first + 1, group
    return [group.group for group in groups if int(group.last) >= int(group.first)]


def check_row(server, number, row, articles):
    """One overview row against the article, and the article against the file. Gives the Message-ID."""
    _, head = server.head(number)
    _, body = server.body(number)
    _, article = server.article(number)
    key = row["message-id"]
    assert head.number == body.number == article.number == number
    assert head.message_id == body.message_id == article.message_id == key
    assert article.lines == head.lines + [b""] + body.lines, key
    for field in ("subject", "from", "date", "message-id", "references"):
        expected = value(head.lines, field.encode()).decode("utf-8", "surrogateescape")
        assert row[field] == expected, (field, row[field], expected)
    assert row["xref"] == value(head.lines, b"xref").decode(), (row, head.lines)
    assert int(row[":lines"]) == len(body.lines), (row, len(body.lines))
    assert int(row[":bytes"]) == sum(len(line) + 2 for line in article.lines), row
    copies = [copy for copy in articles[key] if copy[1] == body.lines]
    assert copies, "no copy that was fed has this body: " + key
    same_head(head.lines, copies[0][0])
    return key


def check_group(server, group, articles):
    """Gives the Message-IDs of the group, in the order of their numbers."""
    _, count, first, last, _ = server.group(group)
    _, rows = server.over((first, last))
    assert len(rows) == count, (group, len(rows), count)
    keys = [check_row(server, number, row, articles) for number, row in rows]
    _, subjects = server.xhdr("subject", f"{first}-{last}")
    assert subjects == [(str(number), row["subject"]) for number, row in rows], group
    walked = [server.stat(first)[1:]]
    while len(walked) < count:
        walked.append(server.next()[1:])
    assert walked == [(number, key) for (number, _), key in zip(rows, keys)], group
    refused(server.next, "421")
    if count > 1:
        assert server.last()[1:] == walked[-2]
    refused(lambda: server.article(last + 1), "423")
    return keys


def check_ids(server, articles):
    for key, copies in articles.items():
        _, article = server.article(key)
        at = article.lines.index(b"")
        assert article.lines[at + 1 :] in [body for _, body in copies], key
        assert server.head(key)[1].lines == article.lines[:at]
        assert server.body(key)[1].lines == article.lines[at + 1 :]
        assert server.stat(key)[2] == key
    refused(lambda: server.article("<none.such@x.example>"), "430")


def refused(call, code):
    try:
        answer = call()
    except nntplib.NNTPTemporaryError as error:
        assert error.response.startswith(code), error.response
    else:
        raise AssertionError(f"{answer} instead of {code}")


def connect(port, how=None, user=None, password=None, authority=None):
    if how is None:
        return nntplib.NNTP("127.0.0.1", port, readermode=True, timeout=20)
    context = ssl.create_default_context(cafile=authority)
    if how == "tls":
        return nntplib.NNTP_SSL("localhost", port, user, password, context, readermode=True, timeout=20)
    server = nntplib.NNTP("localhost", port, timeout=20)
    server.starttls(context)
    server.login(user, password)
    return server


def main():
    port, directory = int(sys.argv[1]), sys.argv[2]
    articles = fed(directory)
    with connect(port, *sys.argv[3:]) as server:
        # Who must log in first cannot post when he is greeted, but when MODE READER is answered.
        check_session(server, ("200 ", "201 ") if len(sys.argv) > 3 else "200 ")
        seen, groups = set(), check_lists(server)
        for group in groups:
            seen.update(check_group(server, group, articles))
        assert seen == set(articles), seen ^ set(articles)
        check_ids(server, articles)
        _, new = server.newnews("*", datetime.datetime.now() - datetime.timedelta(days=1))
        assert sorted(new) == sorted(articles), len(new)
    print(len(articles), "articles in", len(groups), "groups read")


main()
