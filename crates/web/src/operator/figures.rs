//! Charts, as SVG in the page: rings for buffers, lines for changing figures.
//!
//! Each has the same information in words beside or inside it, for users who cannot see it. Colours are
//! classes of the style sheet, so that they follow the theme.

use maud::{Markup, html};
use std::f64::consts::TAU;
use std::fmt::Write;

/// Radius and centre of a ring, in its own units.
const RADIUS: f64 = 44.0;
const CENTRE: f64 = 60.0;
/// Width and height of a line chart.
const WIDTH: f64 = 120.0;
const HEIGHT: f64 = 30.0;
/// Maximum number of points of a line; more could not be distinguished.
const POINTS_MAX: usize = 120;

/// A cyclic buffer, as parts of its area from 0 to 1.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct BufferRing {
    /// The write position.
    pub head: f64,
    /// The part that holds articles; it ends at the write position.
    pub used: f64,
    /// The part of it that was written in the last day and the last hour.
    pub day: f64,
    pub hour: f64,
}

/// Draws a ring that is written clockwise, from the top.
pub(super) fn ring(turn: BufferRing, label: &str, inside: (&str, &str)) -> Markup {
    let BufferRing { head, used, day, hour } = turn;
    let arc = |share: f64| arc(head - share, share);
    let (x, y) = point(head, RADIUS + 11.0);
    let (inner_x, inner_y) = point(head, RADIUS - 11.0);
    html! {
        svg.ring viewBox="0 0 120 120" role="img" aria-label=(label) {
            circle.free cx=(CENTRE) cy=(CENTRE) r=(RADIUS) {}
            @for (class, share) in [("old", used), ("day", day.min(used)), ("hour", hour.min(used))] {
                @if share > 0.0 { path class=(class) d=(arc(share)) {} }
            }
            line.head x1=(round(inner_x)) y1=(round(inner_y)) x2=(round(x)) y2=(round(y)) {}
            text.big x=(CENTRE) y="58" { (inside.0) }
            text.small x=(CENTRE) y="74" { (inside.1) }
        }
    }
}

/// Returns the path of an arc that begins at `from`.
fn arc(from: f64, share: f64) -> String {
    if share >= 0.999_5 {
        // An arc that ends where it begins is not drawn: two halves.
        return format!("{} {}", arc(from, 0.5), arc(from + 0.5, 0.499));
    }
    let (begin, end) = (point(from, RADIUS), point(from + share, RADIUS));
    let large = u8::from(share > 0.5);
    format!(
        "M{} {}A{RADIUS} {RADIUS} 0 {large} 1 {} {}",
        round(begin.0),
        round(begin.1),
        round(end.0),
        round(end.1)
    )
}

/// Returns the point at a turn, clockwise from the top, at this distance from the centre.
fn point(turn: f64, radius: f64) -> (f64, f64) {
    let angle = TAU * turn;
    (CENTRE + radius * angle.sin(), CENTRE - radius * angle.cos())
}

fn round(value: f64) -> f64 {
    (value * 100.0).round() / 100.0
}

/// Draws a figure's history as a line above its area; nothing while there are fewer than two values.
pub(super) fn line(values: &[f64], label: &str) -> Markup {
    let values = thinned(values);
    if values.len() < 2 {
        return html! { span.later { "in a minute" } };
    }
    let top = values.iter().copied().fold(0.0, f64::max);
    let step = WIDTH / (values.len() - 1) as f64;
    let height =
        |value: f64| if top > 0.0 { HEIGHT - 2.0 - value / top * (HEIGHT - 4.0) } else { HEIGHT - 2.0 };
    let mut path = String::new();
    for (at, value) in values.iter().enumerate() {
        let letter = if at == 0 { 'M' } else { 'L' };
        // Writing to a String does not fail.
        let _infallible = write!(path, "{letter}{} {}", round(at as f64 * step), round(height(*value)));
    }
    let area = format!("{path}L{WIDTH} {HEIGHT}L0 {HEIGHT}Z");
    html! {
        svg.line viewBox={ "0 0 " (WIDTH) " " (HEIGHT) } preserveAspectRatio="none" role="img" aria-label=(label) {
            path.area d=(area) {}
            path.stroke d=(path) vector-effect="non-scaling-stroke" {}
        }
    }
}

/// Returns fewer values, each the maximum of several.
fn thinned(values: &[f64]) -> Vec<f64> {
    let some = values.len().div_ceil(POINTS_MAX).max(1);
    values.chunks(some).map(|chunk| chunk.iter().copied().fold(0.0, f64::max)).collect()
}

/// Draws a bar filled to `share`, from 0 to 1, with an optional mark for a target.
pub(super) fn bar(share: f64, mark: Option<f64>, label: &str) -> Markup {
    let width = |share: f64| round(share.clamp(0.0, 1.0) * WIDTH);
    html! {
        svg.bar-line viewBox={ "0 0 " (WIDTH) " 8" } preserveAspectRatio="none" role="img" aria-label=(label) {
            rect.track width=(WIDTH) height="8" {}
            rect.filled width=(width(share)) height="8" {}
            @if let Some(mark) = mark { rect.mark x=(width(mark) - 1.0) width="2" height="8" {} }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ring_ends_at_its_write_position() {
        // A quarter from the top that ends at the right.
        assert_eq!(arc(0.0, 0.25), "M60 16A44 44 0 0 1 104 60");
        assert_eq!(arc(-0.25, 0.75), "M16 60A44 44 0 1 1 60 104");
        assert_eq!(arc(0.3, 1.0).matches('A').count(), 2, "a whole circle");
        let turn = BufferRing { head: 0.25, used: 1.0, day: 0.25, hour: 0.0 };
        let drawn = ring(turn, "label", ("1", "a<b")).into_string();
        assert!(drawn.contains("M60 16A44 44 0 0 1 104 60"), "the last day ends at the head: {drawn}");
        assert!(!drawn.contains("class=\"hour\"") && drawn.contains("a&lt;b"), "{drawn}");
    }

    #[test]
    fn a_line_spans_its_chart() {
        let drawn = line(&[0.0, 4.0, 2.0], "x").into_string();
        assert!(drawn.contains("d=\"M0 28L60 2L120 15\""), "{drawn}");
        let flat = line(&[0.0, 0.0], "x").into_string();
        assert!(flat.contains("d=\"M0 28L120 28\""), "{flat}");
        assert!(!line(&[1.0], "x").into_string().contains("svg"));
        let many: Vec<f64> = (0..1000).map(f64::from).collect();
        let thin = thinned(&many);
        assert!(thin.len() <= POINTS_MAX && thin.last() == Some(&999.0));
    }
}
