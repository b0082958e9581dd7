//! What is wrong with the texts of a chart, for tests.

/// A text's place: left, right, top, bottom.
struct Place {
    text: String,
    edges: [f64; 4],
}

/// Texts that are cut, and those that lie on one another.
pub fn of(svg: &str) -> Vec<String> {
    let view = between(svg, "viewBox=\"", "\"");
    let size: Vec<f64> = view.split(' ').map(|number| number.parse().unwrap()).collect();
    let places: Vec<Place> = svg.lines().filter(|line| line.starts_with("<text ")).map(place).collect();
    let mut found = Vec::new();
    for (at, one) in places.iter().enumerate() {
        let [left, right, top, bottom] = one.edges;
        if left < 0.0 || top < 0.0 || right > size[2] || bottom > size[3] {
            found.push(format!("cut: {}", one.text));
        }
        for other in &places[at + 1..] {
            let apart = right <= other.edges[0]
                || left >= other.edges[1]
                || bottom <= other.edges[2]
                || top >= other.edges[3];
            if !apart {
                found.push(format!("one another: {}, {}", one.text, other.text));
            }
        }
    }
    found
}

fn place(line: &str) -> Place {
    let number = |name: &str| between(line, &format!(" {name}=\""), "\"").parse::<f64>().unwrap();
    let text = between(line, ">", "</text>");
    let is_bold = line.contains("font-weight=\"bold\"");
    let width = if is_bold { super::bold_width(text) } else { super::width(text) };
    let left = number("x")
        - match between(line, "text-anchor=\"", "\"") {
            "end" => width,
            "middle" => width / 2.0,
            _ => 0.0,
        };
    let y = number("y");
    Place { text: text.to_owned(), edges: [left, left + width, y - 10.0, y + 3.0] }
}

fn between<'a>(text: &'a str, begin: &str, end: &str) -> &'a str {
    text.split_once(begin).unwrap().1.split_once(end).unwrap().0
}
