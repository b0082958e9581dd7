#!/usr/bin/env python3
"""The pages in a real browser: `make pages`.

pages.py NEWSREEL DIR makes a site, feeds it all the while, and visits its pages in Chromium, light and dark, 390
and 1440 pixels wide; DIR gets a picture of each. A page fails if the browser complains about anything, if what is
expected is not in it, by `checks.js`, or by axe-core, which npm fetches for this test alone. Text browsers read
some of them, too. Without a browser, or without one of these, it says so.
"""

import json
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import tarfile
import tempfile
import threading
import time

from browser import Browser, program

HERE = pathlib.Path(__file__).parent
THEMES, WIDTHS = ["light", "dark"], [390, 1440]
PASSWORD = "a long password"
AXE = "axe-core@4.14.1"
# Everything that WCAG 2.2 asks for at levels A and AA, and what axe-core calls good practice.
AXE_RUN = """axe.run({resultTypes: ["violations"]}).then(({violations}) =>
  violations.map(({id, impact, nodes}) => `axe-core, ${impact}: ${id}: ${nodes[0].html.slice(0, 90)}`))"""
# A page that none of the checks may find good.
BAD_PAGE = "data:text/html,<title>x</title><img src='data:,'><input><p style='color:%23ccc'>pale"
# The operator's text.
ABOUT = "News of the **example** society.\n\n* Letters of all members\n* An [archive](/groups/local.archive)"
# Writers of a thread.
THREAD = ["ada", "ben", "cleo", "dan", "eve", "fay", "gus", "hal", "ida", "jo", "kim", "lou"]
# What operators decide about.
MANAGED = """
[[moderator]]
groups = "local.moderated"
address = "queue"
[spam]
crossposts = "hide"
crossposts_max = 1
types = "shadow"
[[peer]]
name = "far.example"
addresses = ["192.0.2.1"]
[peer.send]
to = "127.0.0.1:9"
"""
# Longest time until an image of an article is shown, in seconds.
IMAGE_SECS = 10
# Longest time to fetch axe-core, in seconds.
FETCH_SECS = 60


def axe(pictures):
    """The text of axe-core, beside the directory of pictures, or None."""
    kept = pictures.parent / f"{AXE}.tgz"
    if not kept.exists():
        with tempfile.TemporaryDirectory() as home:
            try:
                words = ["npm", "pack", "--silent", "--pack-destination", home, AXE]
                subprocess.run(words, cwd=home, check=True, timeout=FETCH_SECS, stdout=subprocess.DEVNULL)
            except (OSError, subprocess.SubprocessError) as error:
                print(f"no axe-core, the pages are not looked at by it: {error}", file=sys.stderr)
                return None
            shutil.copy(next(pathlib.Path(home).glob("*.tgz")), kept)
    with tarfile.open(kept) as packed:
        return packed.extractfile("package/axe.min.js").read().decode()


class Site:
    """A site that is served and fed."""

    def __init__(self, newsreel):
        self.newsreel = newsreel
        self.home = tempfile.mkdtemp(prefix="newsreel-site-")
        self.dir = os.path.join(self.home, "site")
        self.run("init", "--listen", "127.0.0.1:0", "--buffer", "32 MiB")
        file = pathlib.Path(self.dir, "newsreel.toml")
        text = file.read_text()
        search = "\n[search]\nenabled = true\ndelay = \"1 s\"\n"
        operator = "\n[[access]]\nfrom = \"all\"\nusers = \"carol\"\nread = \"*\"\npost = \"*\"\noperator = true\nmanage = true\n"
        operator += MANAGED
        text = text.replace("\n[[access]]\n", operator + "\n[[access]]\n", 1)
        text = text.replace("max_age_days = 10", "max_age_days = \"none\"", 1)
        web = "" if "\n[web]\n" in text else "\n[web]\nlisten = [\"127.0.0.1:0\"]\n"
        web += f"about = {json.dumps(ABOUT)}\ncache_age = \"1 s\"\nsign_up = \"moderated\"\n"
        file.write_text(text + web + search)
        self.run("user", "add", "carol", feed=PASSWORD + "\n")
        self.log = open(os.path.join(self.home, "log"), "wb")
        self.server = subprocess.Popen([newsreel, "serve", "--dir", self.dir], stderr=self.log)
        self.count, self.is_feeding = 0, True
        self.address = self.wait()
        self.feed(300)
        self.feed_archive()
        self.feed_operator()
        self.feeder = threading.Thread(target=self.keep_feeding, daemon=True)
        self.feeder.start()

    def run(self, *words, feed=None):
        done = subprocess.run([self.newsreel, *words, "--dir", self.dir], input=feed, text=True, capture_output=True)
        assert done.returncode == 0, f"{words}: {done.stderr}"
        return done.stdout

    def wait(self):
        for _ in range(600):
            told = subprocess.run([self.newsreel, "status", "--json", "--dir", self.dir], capture_output=True)
            if told.returncode == 0 and json.loads(told.stdout)["server"]:
                return json.loads(told.stdout)["server"]["web"][0]
            time.sleep(0.1)
        raise AssertionError("the server does not start")

    def feed(self, articles):
        batch = []
        for _ in range(articles):
            self.count += 1
            n = self.count
            parent = f"References: <{n - n % 7}@x.example>\n" if n % 7 else ""
            text = (f"From: Jane Doe <jane@x.example>\nNewsgroups: local.general\nSubject: {'Re: ' if parent else ''}"
                    f"Letter {n - n % 7} <b>&amp;\nMessage-ID: <{n}@x.example>\nPath: x\n{parent}"
                    f"Date: {time.strftime('%a, %d %b %Y %H:%M:%S +0000', time.gmtime())}\n\n"
                    f"> What was said, in a line that is quoted {'and long ' * (n % 30)}\n"
                    f"See https://www.example.org/{'x' * 120}?a=1&b=2 and news:local.test\n"
                    f"begin 644 picture.gif\n#9F]U\n`\nend\n-- \nJane\n")
            batch.append(f"#! rnews {len(text)}\n{text}")
        self.run("rnews", feed="".join(batch))

    def feed_archive(self):
        """Articles of some years in one group, of which one thread has twelve, one has HTML alone, one a picture."""
        batch = []

        def add(name, subject, date, body, head="", parent=""):
            references = f"References: <{parent}@archive.example>\n" if parent else ""
            text = (f"From: {name.title()} Writer <{name}@x.example>\nNewsgroups: local.archive\nSubject: {subject}\n"
                    f"Message-ID: <{name}@archive.example>\nPath: x\nDate: {date}\n{references}{head}\n{body}\n")
            batch.append(f"#! rnews {len(text)}\n{text}")

        for year in range(2015, 2026):
            add(f"year{year}", f"News of {year}", f"Sat, 2 May {year} 10:00:00 +0000", f"What was in {year}.")
        parent = ""
        for n, name in enumerate(THREAD):
            quoted = f"On Sunday {THREAD[n - 1].title()} wrote:\n> The lines of the letter before,\n>> and of the one before that.\n\n"
            text = f"    An indented line\nAnd what {name} has to say.\n-- \n{name.title()}"
            add(name, ("Re: " if n else "") + "A letter of twelve", f"Sun, 1 Mar 2026 10:00:{n:02} +0000",
                (quoted if n else "") + text, parent=parent)
            parent = name if n % 3 else parent or name
        html = ("<p>See <a href='https://www.example.org/a?b=1&amp;c'>the page</a>.</p><blockquote>What was said"
                "</blockquote><table><tr><th>Name<th>Age<tr><td>Jane<td>30</table><script>alert(1)</script>")
        add("html", "In HTML", "Mon, 2 Mar 2026 10:00:00 +0000", html, "Content-Type: text/html\n")
        picture = ("--b\n\nA picture.\n--b\nContent-Type: image/gif; name=dot.gif\nContent-Disposition: attachment\n"
                   "Content-Transfer-Encoding: base64\n\nR0lGODlhAQABAIAAAP8AAAAAACwAAAAAAQABAAACAkQBADs=\n--b--")
        add("picture", "A picture", "Tue, 3 Mar 2026 10:00:00 +0000", picture,
            "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=b\n")
        self.run("group", "add", "local.archive", "--description", "Letters of some years")
        self.run("rnews", feed="".join(batch))

    def feed_operator(self):
        """A post that waits for a moderator, and articles that filters find."""
        self.run("group", "add", "local.moderated", "--flag", "m")
        listen = json.loads(self.run("status", "--json"))["server"]["listen"][0].rsplit(":", 1)
        with socket.create_connection((listen[0], int(listen[1]))) as client:
            lines = client.makefile("rwb")

            def ask(text):
                lines.write(text.encode() + b"\r\n")
                lines.flush()
                return lines.readline()

            lines.readline()
            assert ask("POST").startswith(b"340")
            posted = ask("From: Jane Doe <jane@x.example>\r\nNewsgroups: local.moderated\r\n"
                         "Subject: May I <b>announce</b> this?\r\n\r\nSome words,\r\n> quoted ones,\r\n"
                         f"and {'a long line ' * 30}\r\n.")
            assert posted.startswith(b"240"), posted
        found = [("many@x.example", "local.general,local.test", ""), ("html@x.example", "local.test", "Content-Type: text/html\n")]
        texts = [f"From: a@x.example\nNewsgroups: {groups}\nSubject: Found {name}\nMessage-ID: <{name}>\nPath: x\n"
                 f"Date: Mon, 2 Mar 2026 10:00:00 +0000\n{head}\nx\n" for name, groups, head in found]
        self.run("rnews", feed="".join(f"#! rnews {len(text)}\n{text}" for text in texts))

    def keep_feeding(self):
        while self.is_feeding:
            self.feed(20)
            time.sleep(0.2)

    def close(self):
        self.is_feeding = False
        self.feeder.join()
        self.server.terminate()
        self.server.wait(60)
        self.log.close()
        shutil.rmtree(self.home)


def as_text(site):
    """What a thread and the front page lack in text browsers: lines, indentation, quotations."""
    at, wrong = f"http://{site.address}", []
    for words in [["lynx", "-dump", "-nolist"], ["w3m", "-dump"]]:
        if not shutil.which(words[0]):
            print(f"no {words[0]}: the pages are not read by it", file=sys.stderr)
            continue
        for path, marks in [("/groups/local.archive/thread/ada%40archive.example",
                             ["A letter of twelve", "    An indented line\n", "> The lines of the letter before,\n",
                              ">> and of the one before that.\n", "Lou Writer"]),
                            ("/", ["example society", "local.archive", "With a newsreader"]),
                            ("/article/html%40archive.example", ["> What was said\n", "Jane | 30\n"])]:
            text = subprocess.run([*words, at + path], capture_output=True, text=True, check=True).stdout
            wrong += [f"{words[0]} does not show {mark!r} of {path}" for mark in marks if mark not in text]
    return wrong


def as_described(site):
    """Where the JSON API differs from its description, by schemathesis."""
    if not shutil.which("schemathesis"):
        print("no schemathesis: the JSON API is not compared with its description", file=sys.stderr)
        return []
    checks = ["not_a_server_error", "status_code_conformance", "content_type_conformance",
              "response_schema_conformance", "unsupported_method"]
    words = ["schemathesis", "run", f"http://{site.address}/api/v1/openapi.json", "--phases", "examples,coverage,fuzzing",
             "--checks", ",".join(checks), "--max-examples", "30", "--generation-deterministic", "--no-color"]
    done = subprocess.run(words, cwd=site.home, capture_output=True, text=True)
    return [] if done.returncode == 0 else [f"the JSON API: {line}" for line in done.stdout.splitlines()[-60:]]


def wrong_in(browser, axe):
    """What the checks find in the page that is shown, in words."""
    wrong = browser.run((HERE / "checks.js").read_text())
    if axe:
        browser.run(axe + ";0")
        wrong += browser.run(AXE_RUN)
    return wrong


def prove(browser, axe):
    """The checks find what is wrong."""
    browser.go(BAD_PAGE)
    wrong = wrong_in(browser, axe)
    marks = ["no language", "a field without a label", "an image without alt", "contrast"]
    for mark in marks + (["image-alt", "label", "color-contrast"] if axe else []):
        assert any(mark in what for what in wrong), f"{mark}: {wrong}"
    browser.complaints.clear()


class Visit:
    """A browser's way through the pages of a site in one theme and width."""

    def __init__(self, browser, site, theme, width, pictures, axe):
        self.browser, self.pictures, self.axe = browser, pictures, axe
        self.at, self.kind = f"http://{site.address}", f"{theme}-{width}"
        self.found = []
        browser.look(width, theme)
        browser.ask("Network.clearBrowserCookies")

    def see(self, name, *expected, may_complain=""):
        """Checks the page that is shown."""
        browser = self.browser
        time.sleep(0.2)
        text = browser.run("document.documentElement.innerText")
        wrong = wrong_in(browser, self.axe)
        wrong += [f"\"{words}\" is not there" for words in expected if words not in text]
        wrong += [said for said in browser.complaints if not may_complain or may_complain not in said]
        browser.complaints.clear()
        browser.press_tab()
        outline = "(() => { const s = getComputedStyle(document.activeElement); return s.outlineStyle + s.outlineWidth; })()"
        if browser.run("document.activeElement === document.body") or browser.run(outline) in ("none0px", "solid0px"):
            wrong.append("the focus is not to be seen")
        browser.picture(self.pictures / f"{name}-{self.kind}.png")
        self.found += [f"{name} ({self.kind}): {what}" for what in wrong]

    def go(self, path):
        self.browser.go(self.at + path)

    def fill(self, **fields):
        for name, value in fields.items():
            self.browser.run(f"document.querySelector('main [name={name}]').value = {json.dumps(value)}")
        self.browser.act("document.querySelector('main form:has(:not([type=search])) button[type=submit], main form button').click()")

    def all(self):
        self.go("/")
        self.see("front", "example society", "Letters of some years", "in the last 30 days", "With a newsreader")
        self.archive()
        self.go("/groups")
        self.see("groups", "local.general")
        self.go("/groups/local.general")
        self.see("group", "Letter")
        self.go("/groups/local.general/thread/14%40x.example")
        self.see("thread", "Letter 14 <b>&amp;")
        self.go("/article/15%40x.example")
        self.see("article", "picture.gif", "What was said")
        self.go("/article/no%40such")
        self.see("missing", "not here", may_complain="404")
        self.log_in()
        self.post()
        if self.browser.run("!!document.querySelector('nav a[href=\"/search\"]')"):
            self.go("/search?q=letter+-subject:x")
            self.see("search", "Letter")
            self.go("/search?q=indented")
            self.see("search-facets", "Ada Writer (1)", "An indented line", "Oldest first")
            self.go("/search?q=after:never")
            self.see("search-wrong", "not a date", may_complain="400")
        self.go("/operator")
        time.sleep(6)
        self.see("operator", "text0")
        self.operate()
        return self.found

    def operate(self):
        """Pages on which operators act."""
        self.go("/operator/moderation")
        self.see("operator-moderation", "May I <b>announce</b> this?", "> quoted ones", "Approve", "waits here")
        self.browser.run("document.querySelector('main [name=reason]').value = 'Not here, please'")
        self.browser.act("document.querySelector('main form:has([name=reason]) button').click()")
        self.see("operator-asked", "Are you sure?", "Not here, please")
        self.go("/operator/filters")
        self.see("operator-filters", "would refuse", "posted to too many groups", "Release")
        self.go("/operator/feeds")
        self.see("operator-feeds", "far.example", "Retry now")
        self.go("/operator/cache")
        self.see("operator-cache", "Upstreams", "Hide an article")
        self.go("/operator/accounts")
        self.see("operator-accounts", "Accounts", "guest", "A friend")
        self.go("/operator/audit")
        self.see("operator-audit", "group_add", "done")
        self.go("/account")
        self.see("account", "Another password")

    def archive(self):
        """Pages of articles of many years, of a whole thread, and of articles that are more than text."""
        self.go("/groups/local.archive")
        self.see("archive", "A letter of twelve", "12 articles", "newest by")
        self.go("/groups/local.archive?date=2019")
        self.see("archive-date", "News of 2019", "2019-05", "2015")
        self.go("/groups/local.archive/thread/ada%40archive.example")
        self.see("archive-thread", *[f"what {name} has to say" for name in THREAD], "> The lines", ">> and")
        self.keys()
        self.go("/article/html%40archive.example")
        self.see("archive-html", "the page <https://www.example.org/a?b=1&c>", "> What was said", "Jane | 30")
        # What an earlier visit has left in the browser's memory is shown at once.
        self.browser.ask("Network.setCacheDisabled", cacheDisabled=True)
        self.go("/article/picture%40archive.example")
        self.picture()
        self.browser.ask("Network.setCacheDisabled", cacheDisabled=False)

    def keys(self):
        """The keys j and k go from article to article."""
        press = "document.dispatchEvent(new KeyboardEvent('keydown', {key: '%s', bubbles: true})); location.hash"
        self.browser.run("scrollTo(0, 0)")
        first, second, back = (self.browser.run(press % key) for key in "jjk")
        if not first or first == second or back != first:
            self.found.append(f"keys ({self.kind}): {first} {second} {back}")

    def picture(self):
        """A picture is fetched when its frame is opened, and not before."""
        loaded = "document.querySelector('details.image img').naturalWidth"
        before = self.browser.run(loaded)
        self.browser.run("document.querySelector('details.image').open = true; 0")
        end = time.monotonic() + IMAGE_SECS
        while not (after := self.browser.run(loaded)) and time.monotonic() < end:
            time.sleep(0.05)
        if (before, after) != (0, 1):
            self.found.append(f"picture ({self.kind}): {before} before it is asked for, {after} after")
        self.see("archive-picture", "dot.gif", "Show the picture")

    def log_in(self):
        self.go("/sign-up")
        self.see("sign-up", "To the operator")
        self.fill(user="guest", new=PASSWORD, again=PASSWORD, note="A friend of <b>carol</b>")
        self.see("signed-up", "waits for the operator")
        self.go("/login")
        self.see("login", "Log in")
        self.fill(user="carol", password="wrong")
        self.see("login-refused", "Wrong name or password", may_complain="403")
        self.fill(user="carol", password=PASSWORD)
        self.go("/groups")
        self.see("logged-in", "carol")

    def post(self):
        self.go("/groups/local.test/write")
        self.see("write", "Subject")
        subject = f"Gr\u00fc\u00dfe {self.kind}"
        self.fill(**{"from": "Carol <carol@x.example>", "subject": subject, "body": "Hello <i>world</i>"})
        self.see("posted")
        self.go("/groups/local.test")
        self.see("post-in-group", subject)


def main():
    newsreel, pictures = os.path.abspath(sys.argv[1]), pathlib.Path(sys.argv[2])
    if not program():
        print("no chromium: the pages are not looked at in a browser", file=sys.stderr)
        return 1 if os.environ.get("CI") else 0
    shutil.rmtree(pictures, ignore_errors=True)
    pictures.mkdir(parents=True)
    checked_by = axe(pictures)
    site = Site(newsreel)
    try:
        browser = Browser()
        try:
            prove(browser, checked_by)
            found = as_text(site) + as_described(site)
            found += [what for theme in THEMES for width in WIDTHS
                      for what in Visit(browser, site, theme, width, pictures, checked_by).all()]
        finally:
            browser.close()
    finally:
        site.close()
    for what in found:
        print(what)
    print(f"{len(list(pictures.iterdir()))} pages seen, pictures in {pictures}; {len(found)} faults")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
