//! Programs that answer, die, hang and write nonsense, as small shell scripts.

use super::*;
use site_config as config;
use std::fs;
use std::path::Path;
use tempfile::TempDir;

const PATIENCE: Duration = Duration::from_secs(60);

/// Answers each article with the word at the beginning of its body.
const BY_BODY: &str = r#"
echo "newsreel-filter 1"
while read -r kind number count bytes; do
    while [ "$count" -gt 0 ]; do
        read -r size about
        read -r word
        case $word in
            die) [ -e "$DIR/died" ] || { : > "$DIR/died"; kill -9 $$; }; echo pass;;
            "always die") kill -9 $$;;
            hang) sleep 600;;
            *) echo "$word";;
        esac
        count=$((count - 1))
    done
    echo "done $number"
done
: > "$DIR/ended"
"#;

fn program(dir: &Path, script: &str, keys: &str) -> RunningFilter {
    let script = format!("DIR='{}'\n{script}", dir.display());
    let file = dir.join("filter.sh");
    fs::write(&file, script).unwrap();
    let text = format!(
        "[[filter]]\nname = \"f\"\nprogram = [\"/bin/sh\", \"{}\"]\n{keys}\n\
         [[class]]\nname = \"c\"\nmethod = \"trash\"\n[[rule]]\nclass = \"c\"\n",
        file.display()
    );
    let config = config::parse(&text, &dir.join("newsreel.toml")).map_err(|e| e.to_string()).unwrap();
    RunningFilter::new(config.filters[0].clone(), Weak::new())
}

/// A program with a longer timeout than a configuration allows, so that slow machines do not matter.
fn patient(dir: &Path, script: &str) -> RunningFilter {
    let usual = program(dir, script, "");
    let section = FilterProgram { timeout: PATIENCE, ..usual.section.clone() };
    RunningFilter::new(section, Weak::new())
}

fn ask(program: &RunningFilter, bodies: &[&str]) -> Vec<ProgramVerdict> {
    let mut request = FilterRequest::new("feed");
    bodies.iter().for_each(|body| request.push(format_args!("rnews"), format!("{body}\n").as_bytes()));
    program.ask(request).into_iter().map(|answer| answer.verdict).collect()
}

/// Asks until the article is judged.
fn judged(program: &RunningFilter, body: &str) -> ProgramVerdict {
    let begun = Instant::now();
    loop {
        if let Some(verdict) = ask(program, &[body]).pop() {
            return verdict;
        }
        assert!(begun.elapsed() < PATIENCE, "{:?}", program.status());
        thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn verdicts_arrive_in_order_and_the_program_ends_with_its_input() {
    let dir = TempDir::new().unwrap();
    let programs = FilterPrograms(vec![Arc::new(patient(dir.path(), BY_BODY))]);
    programs.start();
    let verdicts = judged(&programs.0[0], "class a.b");
    assert_eq!(verdicts, ProgramVerdict::Class("a.b".into()));
    let all = ["pass", "reject no\u{1b}[1m", "keep", "aside", "fail why"];
    let said = ask(&programs.0[0], &all);
    let no = ProgramVerdict::Reject("no\\u{1b}[1m".into());
    let expected = [
        ProgramVerdict::Pass,
        no,
        ProgramVerdict::Keep,
        ProgramVerdict::Aside,
        ProgramVerdict::Fail("why".into()),
    ];
    assert_eq!(said, expected);
    let status = programs.0[0].status();
    assert!(status.judged >= 5 && status.unjudged >= 1 && !status.down, "{status:?}");
    programs.end();
    assert!(dir.path().join("ended").exists());
}

#[test]
fn request_of_a_dying_program_is_judged_by_the_next() {
    let dir = TempDir::new().unwrap();
    let program = patient(dir.path(), BY_BODY);
    judged(&program, "pass");
    // The program dies once; a request that is retried in time is unaffected, otherwise it comes back
    // unanswered.
    let said = ask(&program, &["keep", "die", "keep"]);
    let whole = [ProgramVerdict::Keep, ProgramVerdict::Pass, ProgramVerdict::Keep];
    assert!(said == whole || said == whole[..1], "{said:?}");
    assert_eq!(judged(&program, "keep"), ProgramVerdict::Keep);
    assert_eq!(program.status().starts, 2);
    // A request that kills every program comes back unanswered, and the others are judged.
    let said = ask(&program, &["keep", "always die", "keep"]);
    assert!(said.len() <= 1, "{said:?}");
    assert_eq!(judged(&program, "aside"), ProgramVerdict::Aside);
}

#[test]
fn a_hanging_program_is_killed_and_started_again() {
    let dir = TempDir::new().unwrap();
    let program = program(dir.path(), BY_BODY, "timeout = \"200 ms\"\non_failure = \"defer\"");
    judged(&program, "pass");
    let said = ask(&program, &["hang", "keep"]);
    assert_eq!(said, []);
    assert!(program.defers() && program.state.is_down());
    assert_eq!(judged(&program, "keep"), ProgramVerdict::Keep);
    assert!(!program.state.is_down());
}

#[test]
fn programs_that_do_not_speak_the_protocol_judge_nothing() {
    for script in [
        "",
        "exit 3",
        "echo hello; cat > /dev/null",
        "echo newsreel-filter 1; read -r head; echo perhaps; cat > /dev/null",
        "echo newsreel-filter 1; read -r head; echo pass; echo pass; echo done 1; cat > /dev/null",
        "echo newsreel-filter 1; read -r head; echo done 1; cat > /dev/null",
        "echo newsreel-filter 1; read -r head; echo pass; echo done 2; cat > /dev/null",
        "echo newsreel-filter 1; read -r head; echo headers 5; echo abc",
        "echo newsreel-filter 1; while :; do echo xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx; done",
        "echo newsreel-filter 1; read -r head; head -c 100000 /dev/zero; cat > /dev/null",
    ] {
        let dir = TempDir::new().unwrap();
        let program = program(dir.path(), script, "timeout = \"1 s\"");
        let said = ask(&program, &["x"]);
        // At most the verdict written before the fault.
        assert!(said.is_empty() || said == [ProgramVerdict::Pass], "{script}: {said:?}");
        let begun = Instant::now();
        while program.status().starts == 0 {
            assert!(begun.elapsed() < PATIENCE, "{script}");
            thread::sleep(Duration::from_millis(5));
        }
    }
}

#[test]
fn memory_is_limited() {
    let dir = TempDir::new().unwrap();
    let script = "echo newsreel-filter 1; read -r head; read -r about; read -r body; \
                  echo \"class $(ulimit -v)\"; echo done 1; cat > /dev/null";
    let program = program(dir.path(), script, "timeout = \"1 s\"\nmemory_max = \"64 MiB\"");
    let begun = Instant::now();
    let mut said = ask(&program, &["x"]);
    while said.is_empty() {
        assert!(begun.elapsed() < PATIENCE);
        said = ask(&program, &["x"]);
    }
    assert_eq!(said, [ProgramVerdict::Class((64 << 10).to_string())]);
}

#[test]
fn programs_replace_headers_and_ask_questions() {
    let dir = TempDir::new().unwrap();
    let script = "echo newsreel-filter 1; read -r head; read -r about; read -r body; \
                  echo '? known <a@b>'; read -r answer; \
                  echo headers 7; printf 'A: b\\r\\n\\n'; echo \"reject $answer\"; echo done 1; cat > /dev/null";
    let program = patient(dir.path(), script);
    let mut request = FilterRequest::new("post");
    request.push(format_args!("192.0.2.1 "), b"body\n");
    let said = program.ask(request);
    let answer = said.first().unwrap();
    assert_eq!(answer.headers.as_deref(), Some(&b"A: b\r\n\n"[..]));
    assert_eq!(answer.verdict, ProgramVerdict::Reject("= none".into()));
}
