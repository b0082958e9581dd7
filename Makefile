# make build    compile the binary, target/release/newsreel, and make man pages and completions
#               (FEATURES=search,mount: with full text search, and with mounts)
# make man      make man pages and completions alone, in target/release/share
# make run      build and serve a site in ./run (readers and peers: 127.0.0.1:1119)
# make test     every test
# make test-search  the tests of the full text search, which need a build of its own (feature search); then its pages
#               as `make pages` does
# make pages    looks at the pages in a headless chromium, light and dark, on a telephone and on a desk (needs python3;
#               with npm, axe-core looks too)
# make quick    unit tests and transcripts: under a minute after a build
# make check    format, lints, tidy, stale pages: everything that a commit must pass
# make soak     the long tests, which `make test` skips, and the crash tests at every step
# make bench    the speed table, INN beside us (QUICK=1: one short run of each row)
# make transcripts-inn  plays the transcripts to INN, which must differ exactly as they say (INN=: peers/inn),
#               and exchanges articles and batches with INN and C News (CNEWS=: peers/cnews)
# make batches-inn  batches and parts of feeds exchanged with INN and C News (needs both, and root)
# make triangle  two newsreels and an INN feed each other 20,000 articles, killed 60 times (needs INN and root)
# make bench-spool    the papers' comparison: every storage method, and INN's, under the CNFS paper's batches
#               (LAB_OPTIONS="--many 540000": and as many articles as its server kept)
# make bench-cores  how the rate of filing grows with processors (needs root)
# make bench-feeds  what feeding peers costs, and how fast it is, INN with innfeed beside us
# make bench-routing  how long it takes to decide which of 100 peers an article goes to, in 50,000 groups
# make bench-rnews  how fast rnews files a batch, INN's rnews beside it
# make bench-cnews  the C News paper's appendix: batches filed, refused, made and expired, C News and INN beside us
# make bench-expire  100,000 kept articles that are all due, by storage methods, INN and C News beside us
# make bench-newscache  the NewsCache paper's tables: four jobs, directly and through caches, NewsCache beside us (root);
#               LEAFNODE=/usr/sbin: leafnode, too
# make bench-usenetfs  the Usenetfs paper's figures: large directories, flat and in buckets, and a server's day (root)
# make bench-cancels  what 100,000 cancels cost the feed of 420,000 articles that they arrive with
# make bench-fairness  what one client costs another, beyond the processor time that it takes
# make lab-crash    kill -9 during a feed, 50 times, and a check of everything (LAB_ROUNDS=5: a short run)
# make lab-scale    memory and processor time of 7,000 connections at once
# make lab-recover  time to the first answer after kill -9 with 2 million articles (needs 12 GB of disk)
# make lab-rebuild  time to rebuild all indexes of 2 million articles (needs 8 GB of disk)
# make lab-web      time of pages on a large spool, cost of metrics, and of search (FEATURES=search; LAB_OPTIONS=--help)
# make lab-flat     compares figures of a small and of a huge spool (needs 15 GB of disk)
# make static   a binary for any Linux on x86-64, without libraries of the system (needs rustup, and Debian's
#               musl-tools; STATIC_PROFILE=dev: one that is made quickly)
# make test-aarch64  unit tests of netnews and spool as a program for 64-bit ARM (needs rustup, and Debian's
#               gcc-aarch64-linux-gnu, libc6-dev-arm64-cross and qemu-user)
# make size     build the release binary without debug information, and say how large it is
# make fuzz     every fuzz target for FUZZ_SECONDS each (needs the nightly toolchain)
# make docs     regenerate docs/config.md from the table of keys
# make deb      a Debian package of what `make build` made, in target/release; looked at by lintian if it is here
# make deb-test  installs it in a clean Debian of its own, upgrades and purges it, and follows there the chapters by
#                which sites of INN and leafnode move in (needs root and debootstrap)
# make deb-trial  the same with a package of the binary that tests use, for CI, which keeps a clean Debian in target/ci
# make install  install what `make build` made, the manuals and, on Linux, the systemd unit in PREFIX

CARGO ?= cargo
PREFIX ?= /usr/local
FUZZ_SECONDS ?= 60
RUN_DIR ?= run
BINARY = $(or $(CARGO_TARGET_DIR),target)/release/newsreel
SHARE = $(or $(CARGO_TARGET_DIR),target)/release/share
# The date that man pages bear: that of the sources.
MAN_DATE ?= $(shell git log -1 --format=%cs 2> /dev/null || date +%F)
# How long a real INN runs on a mount in `make soak`.
SOAK_SECONDS ?= 7200
LAB_ROUNDS ?= 50
LAB_DIR ?= /tmp/newsreel-lab
CORPUS ?= ../shared/corpus
NNTPLOAD ?= ../shared/bench/nntpload
PEERS ?= ../shared/peers
INN ?= $(PEERS)/inn
CNEWS ?= $(PEERS)/cnews
INN17 ?= $(PEERS)/inn17
FUZZ_HOST = $(shell rustc -vV | sed -n 's/^host: //p')
FUZZ_FLAGS = --cfg fuzzing -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
  -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table

.PHONY: run build man test test-search pages quick check size soak fuzz bench bench-spool bench-feeds bench-routing bench-rnews bench-cnews bench-expire bench-newscache bench-cancels bench-fairness bench-usenetfs bench-cores docs install deb deb-test deb-trial lab-crash lab-scale lab-recover lab-rebuild lab-flat lab-web static test-aarch64 transcripts-inn batches-inn triangle

run: build
	@exec $(BINARY) up --dir $(RUN_DIR)

build:
	$(CARGO) build --release --locked -p newsreel $(if $(FEATURES),--features $(FEATURES))
	@rm -rf $(SHARE) && $(BINARY) docs --share $(SHARE) --date "$(MAN_DATE)"

man:
	@rm -rf $(SHARE) && $(CARGO) run --quiet --locked -p newsreel -- docs --share $(SHARE) --date "$(MAN_DATE)"

# Most tests wait for a server, a disk or a clock more than they compute. So there are more threads than
# processors, and the largest program of tests runs beside all others, whose output follows at their end.
BESIDE = --lib --bins --test articles --test fuzz --test hostile --test linear --test power --test safe --test stores
test:
	$(CARGO) test --workspace --locked --no-run
	@export RUST_TEST_THREADS=$${RUST_TEST_THREADS:-$$((3 * $$(nproc)))}; said=$$(mktemp); \
	$(CARGO) test --workspace --locked $(BESIDE) > $$said 2>&1 & beside=$$!; \
	$(CARGO) test --workspace --locked --test main; ended=$$?; \
	wait $$beside || ended=$$?; cat $$said; rm $$said; exit $$ended

# Apart, so that nobody compiles a search engine for the other tests. They leave a binary, whose pages are those
# of `make pages` and two more.
test-search: SEEN = $(or $(CARGO_TARGET_DIR),target)
test-search:
	$(CARGO) clippy --locked -p newssearch --features tantivy -p newsreel --features newsreel/search --all-targets -- -D warnings
	$(CARGO) test --locked -p newssearch --features tantivy
	$(CARGO) test --locked -p newsreel --features search --lib search
	$(CARGO) test --locked -p newsreel --features search --test main -- searching::
	python3 crates/newsreel/tests/pages/pages.py $(SEEN)/debug/newsreel $(SEEN)/pages

# Pictures of the pages are in target/pages.
pages: SEEN = $(or $(CARGO_TARGET_DIR),target)
pages:
	$(CARGO) build --locked -p newsreel $(if $(FEATURES),--features $(FEATURES))
	python3 crates/newsreel/tests/pages/pages.py $(SEEN)/debug/newsreel $(SEEN)/pages

quick:
	$(CARGO) test --workspace --lib --bins --locked
	$(CARGO) test --workspace --locked --test main transcripts::

check:
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings
	$(CARGO) run --quiet --locked -p tidy
	$(CARGO) run --quiet --locked -p newsreel -- docs | diff docs/config.md - || { echo 'docs/config.md is stale: run make docs'; exit 1; }
	$(CARGO) metadata --quiet --locked --offline --no-deps --format-version 1 --manifest-path fuzz/Cargo.toml > /dev/null
	@! command -v cargo-deny > /dev/null || $(CARGO) deny --offline check licenses bans sources

MUSL = x86_64-unknown-linux-musl
STATIC_PROFILE ?= release
static: MADE = $(or $(CARGO_TARGET_DIR),target)/$(MUSL)/$(STATIC_PROFILE:dev=debug)/newsreel
static:
	rustup target add $(MUSL)
	$(CARGO) build --profile $(STATIC_PROFILE) --locked --target $(MUSL) -p newsreel $(if $(FEATURES),--features $(FEATURES))
	@ldd $(MADE) 2>&1 | grep -q -e 'statically linked' -e 'not a dynamic' || { echo "$(MADE) needs libraries"; exit 1; }
	@echo "$(MADE) needs no libraries"

ARM = aarch64-unknown-linux-gnu
test-aarch64: export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER = aarch64-linux-gnu-gcc
test-aarch64: export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER = qemu-aarch64 -L /usr/aarch64-linux-gnu
test-aarch64:
	rustup target add $(ARM)
	@# qemu knows nothing of the hints with which files are marked.
	$(CARGO) test --locked --target $(ARM) -p netnews -p spool --lib -- --skip a_mark_stays_with_the_file

size: SIZED = $(or $(CARGO_TARGET_DIR),target)/size/newsreel
size:
	$(CARGO) build --profile size --locked -p newsreel
	@echo "the binary has $$(wc -c < $(SIZED)) bytes"

# CORPUS is a directory of articles, or one with a .tar.xz of them.
soak: ARTICLES = $(or $(CARGO_TARGET_DIR),target)/corpus
soak:
	@rm -rf $(ARTICLES) && mkdir -p $(ARTICLES)
	@for tar in $(CORPUS)/*.tar.xz; do [ ! -e "$$tar" ] || tar -xJf "$$tar" -C $(ARTICLES); done
	@articles=$(ARTICLES); [ -n "$$(ls $$articles)" ] || articles=$(CORPUS); \
	if [ -d "$$articles" ]; then skip=; else echo "no articles in CORPUS=$(CORPUS): the_corpus_parses is skipped"; skip='--skip the_corpus_parses'; fi; \
	INN=$(INN) NEWSREEL_SOAK_SECONDS=$(SOAK_SECONDS) NEWSREEL_CORPUS=$$(realpath $$articles) $(CARGO) test --workspace --profile soak --locked --no-fail-fast -- \
	  --ignored --nocapture --skip transcripts::inn --skip feeds::inn --skip feeds::page --skip feeds::cnews --skip feeds::triangle \
	  --skip moving_in --skip mounting::inn --skip books_of_a_full_cache $$skip
	$(CARGO) test -p newscache --lib --profile soak --locked -- --ignored --nocapture books_of_a_full_cache
	NEWSREEL_CRASH_EVERY=1 $(CARGO) test -p spool --test stores --profile soak --locked
	NEWSREEL_CRASH_EVERY=1 NEWSREEL_TEST_ROUNDS=20 $(CARGO) test -p newscache --lib --profile soak --locked -- tests::crash tests::rounds
	NEWSREEL_CORPUS=$$(realpath $(ARTICLES)) $(CARGO) test -p newsreel --features search --test main --profile soak --locked -- \
	  --ignored --nocapture searching:: $$([ -n "$$(ls $(ARTICLES))" ] || echo --skip of_a_corpus)

fuzz:
	cd fuzz && RUSTFLAGS="$(FUZZ_FLAGS)" $(CARGO) +nightly build --release --target $(FUZZ_HOST)
	cd fuzz && sh seeds.sh && for target in fuzz_targets/*.rs; do \
	  name=$$(basename $$target .rs); mkdir -p corpus/$$name artifacts/$$name; \
	  echo "== $$name"; \
	  $(or $(CARGO_TARGET_DIR),target)/$(FUZZ_HOST)/release/$$name -max_total_time=$(FUZZ_SECONDS) -artifact_prefix=artifacts/$$name/ corpus/$$name || exit 1; \
	done

bench:
	NNTPLOAD=$(NNTPLOAD) INN=$(INN) crates/lab/bench/bench.sh

bench-spool: build
	$(CARGO) build --release --locked -p lab --bin lab
	$(or $(CARGO_TARGET_DIR),target)/release/lab spool --dir $(LAB_DIR) --corpus $(CORPUS) --peers $(PEERS) --docs docs/bench $(LAB_OPTIONS)

bench-feeds: build
	$(CARGO) build --release --locked -p lab --bin lab
	$(or $(CARGO_TARGET_DIR),target)/release/lab feeds --dir $(LAB_DIR) --inn $(INN) $(LAB_OPTIONS)

bench-rnews: build
	$(CARGO) build --release --locked -p lab --bin lab
	$(or $(CARGO_TARGET_DIR),target)/release/lab rnews --dir $(LAB_DIR) --inn $(INN) $(LAB_OPTIONS)

bench-routing:
	$(CARGO) test --profile soak --locked -p newsreel --lib ingest::routing::tests::speed -- --ignored --nocapture

bench-cnews: build
	$(CARGO) build --release --locked -p lab --bin lab
	$(or $(CARGO_TARGET_DIR),target)/release/lab cnews --dir $(LAB_DIR) --peers $(PEERS) --docs docs/bench $(LAB_OPTIONS)

bench-expire: build
	$(CARGO) build --release --locked -p lab --bin lab
	$(or $(CARGO_TARGET_DIR),target)/release/lab expire --dir $(LAB_DIR) --peers $(PEERS) --docs docs/bench $(LAB_OPTIONS)

bench-cancels: build
	$(CARGO) build --release --locked -p lab --bin lab
	$(or $(CARGO_TARGET_DIR),target)/release/lab cancels --dir $(LAB_DIR) $(LAB_OPTIONS)

bench-fairness: build
	$(CARGO) build --release --locked -p lab --bin lab
	$(or $(CARGO_TARGET_DIR),target)/release/lab fairness --dir $(LAB_DIR) --docs docs/bench $(LAB_OPTIONS)

bench-newscache: build
	$(CARGO) build --release --locked -p lab --bin lab
	$(or $(CARGO_TARGET_DIR),target)/release/lab newscache --dir $(LAB_DIR) --newscache $(PEERS)/newscache $(if $(LEAFNODE),--leafnode $(LEAFNODE)) --docs docs/bench $(LAB_OPTIONS)

bench-usenetfs: FEATURES = mount
bench-usenetfs: build
	$(CARGO) build --release --locked -p lab --bin lab
	$(or $(CARGO_TARGET_DIR),target)/release/lab usenetfs --dir $(LAB_DIR) --peers $(PEERS) --docs docs/bench $(LAB_OPTIONS)

bench-cores: build
	$(CARGO) build --release --locked -p lab --bin lab
	$(or $(CARGO_TARGET_DIR),target)/release/lab cores --dir $(LAB_DIR) --docs docs/bench $(LAB_OPTIONS)

lab-crash: LAB_OPTIONS = --rounds $(LAB_ROUNDS)
lab-crash lab-scale lab-recover lab-rebuild lab-flat lab-web: build
	$(CARGO) build --release --locked -p lab --bin lab
	$(or $(CARGO_TARGET_DIR),target)/release/lab $(@:lab-%=%) --dir $(LAB_DIR) $(LAB_OPTIONS)

transcripts-inn:
	INN=$(INN) INN17=$(INN17) $(CARGO) test --workspace --locked --test main -- --ignored --nocapture --skip sixty_kills \
	  transcripts::inn feeds::inn::inn_takes feeds::page feeds::triangle moving_in::a_site_that_has book::from_inn mounting::inn_on_a_mount

batches-inn:
	INN=$(INN) CNEWS=$(CNEWS) $(CARGO) test --workspace --locked --test main -- --ignored --nocapture \
	  feeds::inn::batches feeds::inn::a_part feeds::cnews moving_in::a_site_of_c_news

triangle:
	INN=$(INN) $(CARGO) test --workspace --locked --test main -- --ignored --nocapture sixty_kills

docs:
	$(CARGO) run --quiet -p newsreel -- docs > docs/config.md.new
	mv docs/config.md.new docs/config.md

DEB = $(dir $(BINARY))newsreel_*.deb

deb: build
	@rm -f $(DEB)
	packaging/deb/build.sh $(BINARY) $(SHARE) $(dir $(BINARY))
	@! command -v lintian > /dev/null || lintian --allow-root --fail-on error $(DEB)

deb-test: deb
	packaging/deb/test.sh $(DEB)
	packaging/deb/moving.sh $(DEB)

# A release takes long to make, and a package is tried as well with another binary.
TRIAL = $(or $(CARGO_TARGET_DIR),target)/ci
deb-trial: TRIED = $(or $(CARGO_TARGET_DIR),target)/debug/newsreel
deb-trial:
	$(CARGO) build --locked -p newsreel
	@rm -rf $(TRIAL)/deb && mkdir -p $(TRIAL)/deb && $(TRIED) docs --share $(TRIAL)/deb/share --date "$(MAN_DATE)"
	DEB_COMPRESSION=gzip packaging/deb/build.sh $(TRIED) $(TRIAL)/deb/share $(TRIAL)/deb
	packaging/deb/test.sh $(TRIAL)/deb/newsreel_*.deb $(wildcard $(TRIAL)/debian)
	packaging/deb/moving.sh $(TRIAL)/deb/newsreel_*.deb $(wildcard $(TRIAL)/debian)

# Does not compile anything, so root does not need cargo.
install:
	@for made in $(BINARY) $(SHARE)/man; do [ -e $$made ] || { echo "there is no $$made; run \"make build\" first, as a user who has cargo" >&2; exit 1; }; done
	install -D -m 755 $(BINARY) $(DESTDIR)$(PREFIX)/bin/newsreel
	install -D -m 755 -t $(DESTDIR)$(PREFIX)/libexec/newsreel packaging/filters/newsreel-filter-perl packaging/filters/newsreel-filter-python
	install -d $(DESTDIR)$(PREFIX)/share/doc/newsreel
	cp -R $(SHARE)/. $(DESTDIR)$(PREFIX)/share
	cp -R README.md CHANGELOG.md docs/config.md packaging $(DESTDIR)$(PREFIX)/share/doc/newsreel
	[ "$$(uname)" != Linux ] || \
	  { install -d $(DESTDIR)/etc/systemd/system && sed 's|/usr/bin/newsreel|$(PREFIX)/bin/newsreel|' packaging/newsreel.service > $(DESTDIR)/etc/systemd/system/newsreel.service; }
