//! Tests of the strategies against models that examine everything each time.

use std::collections::BTreeMap;

use super::*;

/// Properties of a unit in the model.
#[derive(Debug, Clone, Copy)]
struct Known {
    item: UnitInfo,
    used: u64,
    uses: u64,
}

/// Order of groups in the model, by the time of the last use and the number of uses.
type GroupRank<'a> = &'a dyn Fn(&(u64, u64)) -> (u64, u64);

/// Model of a strategy.
#[derive(Default)]
struct Model {
    units: BTreeMap<u32, Known>,
    groups: BTreeMap<u32, (u64, u64)>,
    tick: u64,
}

impl Model {
    fn ask(&mut self, unit: u32) {
        self.tick += 1;
        let Some(known) = self.units.get_mut(&unit) else { return };
        (known.used, known.uses) = (self.tick, known.uses + 1);
        let group = self.groups.entry(known.item.group).or_default();
        *group = (self.tick, group.1 + 1);
    }

    fn insert(&mut self, unit: u32, item: UnitInfo) {
        self.units.insert(unit, Known { item, used: 0, uses: 0 });
        self.ask(unit);
    }

    fn remove(&mut self, unit: u32) {
        let Some(known) = self.units.remove(&unit) else { return };
        if self.units.values().all(|other| other.item.group != known.item.group) {
            self.groups.remove(&known.item.group);
        }
    }

    fn victim(&self, kind: StrategyKind) -> Option<Victim> {
        let unit = |rank: &dyn Fn(&Known) -> (u64, u64)| {
            let least = self.units.iter().min_by_key(|(id, known)| (rank(known), **id));
            least.map(|(id, _)| Victim::Unit(*id))
        };
        let group = |rank: GroupRank<'_>| {
            let least = self.groups.iter().min_by_key(|(_, known)| rank(known));
            least.map(|(id, _)| *id)
        };
        match kind {
            StrategyKind::Lrua => unit(&|known| (known.used, 0)),
            StrategyKind::Lfua => unit(&|known| (known.uses, known.used)),
            StrategyKind::Baf => unit(&|known| (u64::MAX - known.item.bytes, known.used)),
            StrategyKind::Letf => unit(&|known| (known.item.expires, known.used)),
            StrategyKind::Lrug => group(&|known| (known.0, 0)).map(Victim::Group),
            StrategyKind::Lfug => group(&|known| (known.1, known.0)).map(Victim::Group),
            StrategyKind::Hybrid => {
                let of = group(&|known| (known.0, 0))?;
                let units = self.units.iter().filter(|(_, known)| known.item.group == of);
                units.min_by_key(|(_, known)| known.used).map(|(id, _)| Victim::Unit(*id))
            }
            StrategyKind::S3fifo | StrategyKind::Gain => None,
        }
    }
}

fn random(seed: &mut u64, below: u64) -> u64 {
    *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*seed >> 33) % below
}

/// Does random work with 60 units of 9 groups; after each step the victims must be the same.
fn compare(kind: StrategyKind) {
    let (mut strategy, mut model, mut seed) = (kind.new_strategy(), Model::default(), kind as u64 + 1);
    for step in 0..20_000_u64 {
        let unit = random(&mut seed, 60) as u32;
        let item = UnitInfo {
            key: u64::from(unit),
            group: unit % 9,
            bytes: random(&mut seed, 50),
            expires: random(&mut seed, 50),
        };
        match (random(&mut seed, 8), model.units.contains_key(&unit)) {
            (_, false) => {
                strategy.insert(unit, item);
                model.insert(unit, item);
            }
            (0, _) => {
                strategy.remove(unit, item);
                model.remove(unit);
            }
            (1, _) => {
                strategy.grow(unit, item);
                model.ask(unit);
                model.units.entry(unit).and_modify(|known| known.item = item);
            }
            (2, _) => match strategy.victim() {
                Some(Victim::Unit(unit)) => {
                    strategy.remove(unit, model.units[&unit].item);
                    model.remove(unit);
                }
                Some(Victim::Group(group)) => {
                    for unit in (0..60).filter(|unit| unit % 9 == group) {
                        strategy.remove(unit, UnitInfo { group, ..item });
                        model.remove(unit);
                    }
                }
                None => assert!(model.units.is_empty(), "{kind} at step {step}"),
            },
            _ => {
                strategy.hit(unit, model.units[&unit].item);
                model.ask(unit);
            }
        }
        assert_eq!(strategy.victim(), model.victim(kind), "{kind} at step {step}");
    }
}

#[test]
fn simple_strategies_agree_with_exhaustive_models() {
    use StrategyKind::{Baf, Hybrid, Letf, Lfua, Lfug, Lrua, Lrug};
    for kind in [Lrua, Lfua, Baf, Letf, Lrug, Lfug, Hybrid] {
        compare(kind);
    }
}

/// Every victim exists, and at the end nothing is left.
#[test]
fn every_strategy_names_existing_units_until_none_is_left() {
    for kind in StrategyKind::ALL {
        let (mut strategy, mut seed) = (kind.new_strategy(), 7);
        let mut there: BTreeMap<u32, UnitInfo> = BTreeMap::new();
        let take = |strategy: &mut Box<dyn Strategy>, there: &mut BTreeMap<u32, UnitInfo>| {
            let gone: Vec<u32> = match strategy.victim() {
                Some(Victim::Unit(unit)) => vec![unit],
                Some(Victim::Group(group)) => {
                    there.iter().filter(|(_, item)| item.group == group).map(|(unit, _)| *unit).collect()
                }
                None => Vec::new(),
            };
            assert!(!gone.is_empty() || there.is_empty(), "{kind}");
            for unit in gone {
                let item = there.remove(&unit).unwrap_or_else(|| panic!("{kind}: {unit} is not there"));
                strategy.remove(unit, item);
            }
        };
        for _ in 0..20_000 {
            let unit = random(&mut seed, 500) as u32;
            let item =
                UnitInfo { key: unit.into(), group: unit % 20, bytes: 1 + unit as u64 % 7, expires: 0 };
            match (there.contains_key(&unit), random(&mut seed, 9)) {
                (false, _) => {
                    there.insert(unit, item);
                    strategy.insert(unit, item);
                }
                (true, 0) => {
                    there.remove(&unit);
                    strategy.remove(unit, item);
                }
                (true, 1) => {
                    let grown = UnitInfo { bytes: item.bytes + 3, ..item };
                    there.insert(unit, grown);
                    strategy.grow(unit, grown);
                }
                (true, _) => strategy.hit(unit, there[&unit]),
            }
            if there.len() > 200 {
                take(&mut strategy, &mut there);
            }
        }
        while !there.is_empty() {
            take(&mut strategy, &mut there);
        }
        assert_eq!(strategy.victim(), None, "{kind}");
    }
}

/// Units used once pass through; those that return soon stay.
#[test]
fn s3_fifo_prefers_returning_units_to_scanned_ones() {
    let mut strategy = StrategyKind::S3fifo.new_strategy();
    let item = |key| UnitInfo { key, group: 0, bytes: 1, expires: 0 };
    for unit in 0..10 {
        strategy.insert(unit, item(unit.into()));
    }
    for unit in 0..3 {
        strategy.hit(unit, item(unit.into()));
        strategy.hit(unit, item(unit.into()));
    }
    for unit in 10..40_u32 {
        let Some(Victim::Unit(victim)) = strategy.victim() else { panic!("nothing to go") };
        assert!(victim > 2, "{victim} was asked for again");
        strategy.remove(victim, item(victim.into()));
        strategy.insert(unit, item(unit.into()));
    }
    // The unit left the small queue not long ago, so it is remembered.
    let Some(Victim::Unit(victim)) = strategy.victim() else { panic!("nothing to go") };
    strategy.remove(victim, item(victim.into()));
    strategy.insert(victim, item(victim.into()));
    for unit in 40..49_u32 {
        let Some(Victim::Unit(next)) = strategy.victim() else { panic!("nothing to go") };
        assert_ne!(next, victim);
        strategy.remove(next, item(next.into()));
        strategy.insert(unit, item(unit.into()));
    }
}

#[test]
fn names_are_read_back() {
    for kind in StrategyKind::ALL {
        assert_eq!(kind.to_string().parse(), Ok(kind));
    }
    assert!("lru".parse::<StrategyKind>().unwrap_err().to_string().contains("lrug, lfua"));
}
