//! `expire --what-if`: what other rules would delete, as a table.

use super::locate::SiteLocation;
use super::reach;
use super::screen::{CliError, say, say_json, unreadable};
use super::table::Columns;
use super::typed::TypedOperation;
use operators::expire::ExpireOperation;
use operators::reply::ExpirePreview;
use site_base::units::{about_size, grouped};

impl TypedOperation for ExpireOperation {
    fn carry_out(mut self, at: &SiteLocation) -> Result<(), CliError> {
        let config = at.load()?;
        let Some(file) = self.what_if.take() else { return reach::print(&config, self) };
        let cannot = unreadable(&file);
        self.text = Some(std::fs::read_to_string(&file).map_err(cannot)?);
        self.what_if = Some(std::path::absolute(&file).map_err(cannot)?);
        let (days, json) = (self.days, self.json);
        let rows = reach::rows(&config, self)?;
        if json { say_json(&rows) } else { say(table(rows, days)) }
    }
}

fn table(mut rows: Vec<ExpirePreview>, days: Option<u32>) -> String {
    let sum = |of: fn(&ExpirePreview) -> u64| rows.iter().map(of).sum();
    let total = ExpirePreview {
        section: None,
        conditions: "together".into(),
        articles: sum(|row| row.articles),
        now_articles: sum(|row| row.now_articles),
        now_bytes: sum(|row| row.now_bytes),
        later_articles: Some(sum(|row| row.later_articles.unwrap_or(0))),
        later_bytes: Some(sum(|row| row.later_bytes.unwrap_or(0))),
    };
    for row in &mut rows {
        match row.section {
            Some(_) if row.conditions.is_empty() => row.conditions = "all articles".into(),
            None => row.conditions = "no section: kept forever".into(),
            Some(_) => {}
        }
    }
    rows.push(total);
    let section = |row: &ExpirePreview| row.section.map_or(String::new(), |n| format!("[[expire]] {n}"));
    let columns = Columns::of(&rows)
        .left("", section)
        .left("", |row| row.conditions.clone())
        .right("articles", |row| grouped(row.articles))
        .right("gone now", |row| grouped(row.now_articles))
        .right("bytes", |row| about_size(row.now_bytes));
    let Some(days) = days else { return columns.text() };
    columns
        .right(&format!("in {days} d"), |row| grouped(row.later_articles.unwrap_or(0)))
        .right("bytes", |row| about_size(row.later_bytes.unwrap_or(0)))
        .text()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_are_rows_and_the_last_one_is_their_sum() {
        let row = |section, conditions: &str, articles, now, later| ExpirePreview {
            section,
            conditions: conditions.into(),
            articles,
            now_articles: now,
            now_bytes: now * 1024,
            later_articles: Some(later),
            later_bytes: Some(later * 1024),
        };
        let rows = vec![row(Some(1), "groups = \"a.*\"", 5000, 20, 3000), row(None, "", 7, 0, 0)];
        let shown = table(rows.clone(), Some(30));
        let lines: Vec<&str> = shown.lines().collect();
        assert_eq!(lines.len(), 4, "{shown}");
        assert!(lines[0].trim_start().starts_with("articles  gone now"), "{shown}");
        assert!(lines[0].ends_with("in 30 d     bytes"), "{shown}");
        assert!(
            lines[1].starts_with("[[expire]] 1  groups = \"a.*\"") && lines[1].contains(" 3,000 "),
            "{shown}"
        );
        assert!(lines[2].contains("no section: kept forever"), "{shown}");
        assert!(lines[3].contains("together") && lines[3].contains(" 5,007 "), "{shown}");
        assert!(!table(rows, None).contains("3,000"));
    }
}
