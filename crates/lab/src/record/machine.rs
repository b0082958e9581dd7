//! The machine that a bench ran on, from /proc (proc_cpuinfo(5), proc_meminfo(5), proc_stat(5)).

use serde_json::{Value, json};
use std::fs;
use std::time::Duration;

/// How long it is watched before the bench begins.
const WATCH: Duration = Duration::from_secs(1);
/// From here on it is loaded.
const LOADED_PERCENT: f64 = 10.0;

/// What figures depend on.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Machine {
    pub processor: String,
    pub cores: usize,
    pub memory_mib: u64,
    pub kernel: String,
    /// Part of its processors' time that others took in the second before the bench.
    pub busy_percent: f64,
}

impl Machine {
    /// Looks at it; takes a second.
    pub fn look() -> Self {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let before = Spent::now();
        std::thread::sleep(WATCH);
        let spent = Spent::now().since(&before);
        Self {
            processor: field(&read("/proc/cpuinfo"), "model name").to_owned(),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            memory_mib: field(&read("/proc/meminfo"), "MemTotal")
                .split(' ')
                .next()
                .and_then(|kb| kb.parse::<u64>().ok())
                .unwrap_or_default()
                >> 10,
            kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
            busy_percent: 100.0 - spent.percent(spent.idle + spent.wait),
        }
    }

    pub fn json(&self) -> Value {
        json!({
            "processor": self.processor,
            "cores": self.cores,
            "memory_mib": self.memory_mib,
            "kernel": self.kernel,
            "busy_percent": self.busy_percent.round(),
            "loaded": self.busy_percent > LOADED_PERCENT,
        })
    }

    /// What [`Machine::json`] made; what is missing is empty.
    pub fn of(value: &Value) -> Self {
        let text = |name: &str| value[name].as_str().unwrap_or_default().to_owned();
        let number = |name: &str| value[name].as_f64().unwrap_or_default();
        Self {
            processor: text("processor"),
            cores: number("cores") as usize,
            memory_mib: number("memory_mib") as u64,
            kernel: text("kernel"),
            busy_percent: number("busy_percent"),
        }
    }
}

/// The value of a line `name : value`.
fn field<'a>(text: &'a str, name: &str) -> &'a str {
    let mut lines = text.lines().filter_map(|line| line.split_once(':'));
    lines.find(|(found, _)| found.trim() == name).map_or("", |(_, value)| value.trim())
}

/// How all processors together spent their time, in ticks.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Spent {
    pub user: f64,
    pub system: f64,
    pub idle: f64,
    /// Idle while somebody waits for a disk.
    pub wait: f64,
    /// What the host gave to others.
    pub stolen: f64,
}

impl Spent {
    /// Since the machine started.
    pub fn now() -> Self {
        Self::parse(&fs::read_to_string("/proc/stat").unwrap_or_default())
    }

    /// The first line of /proc/stat.
    fn parse(text: &str) -> Self {
        let line = text.lines().next().unwrap_or_default();
        let ticks: Vec<f64> = line.split_whitespace().skip(1).map_while(|word| word.parse().ok()).collect();
        let at = |n: usize| ticks.get(n).copied().unwrap_or_default();
        Self { user: at(0) + at(1), system: at(2) + at(5) + at(6), idle: at(3), wait: at(4), stolen: at(7) }
    }

    /// Between two moments.
    pub fn since(&self, before: &Self) -> Self {
        Self {
            user: self.user - before.user,
            system: self.system - before.system,
            idle: self.idle - before.idle,
            wait: self.wait - before.wait,
            stolen: self.stolen - before.stolen,
        }
    }

    /// All of it.
    pub fn all(&self) -> f64 {
        self.user + self.system + self.idle + self.wait + self.stolen
    }

    /// A part of the whole.
    pub fn percent(&self, part: f64) -> f64 {
        let all = self.all();
        if all > 0.0 { 100.0 * part / all } else { 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_is_read_by_its_kinds() {
        let before = Spent::parse("cpu  10 5 20 100 50 1 2 3 0 0\ncpu0 1 1 1 1\n");
        assert_eq!(before, Spent { user: 15.0, system: 23.0, idle: 100.0, wait: 50.0, stolen: 3.0 });
        let spent = Spent::parse("cpu  20 5 30 160 60 1 2 13 0 0\n").since(&before);
        assert_eq!((spent.percent(spent.idle), spent.percent(spent.wait)), (60.0, 10.0));
        assert_eq!(Spent::default().percent(1.0), 0.0);
    }

    #[test]
    fn a_machine_is_found_again_in_its_json() {
        assert_eq!(field("a : b\nmodel name\t: some: thing\n", "model name"), "some: thing");
        let machine = Machine { kernel: "6.1".into(), cores: 4, busy_percent: 7.0, ..Machine::look() };
        assert!(machine.memory_mib > 0);
        assert_eq!(Machine::of(&machine.json()), machine);
        assert_eq!(machine.json()["loaded"], json!(false));
    }
}
