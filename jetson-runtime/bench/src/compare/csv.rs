//! The cells as CSV (RFC 4180): the keys of the JSON as the first row, nothing where there is no
//! number.

use std::fmt::Write as _;

use super::Cell;

/// All cells, a row each.
#[must_use]
pub fn csv(cells: &[Cell]) -> String {
    let mut text = String::from(
        "trace,device,budget_fraction,budget_bytes,policy,feasible,ratio,bound_ratio,\
         lp_bound_ratio,moved_out_bytes,moved_in_bytes,recompute_s,recomputed_bytes,\
         page_overhead,plan_s,verdict\n",
    );
    for cell in cells {
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "{},{},{:.6},{},{},{},{},{:.6},{},{},{},{},{},{},{:.6},{}",
            quoted(&cell.trace),
            quoted(&cell.device),
            cell.budget_fraction,
            cell.budget_bytes,
            quoted(&cell.policy),
            cell.feasible,
            number(cell.ratio),
            cell.bound_ratio,
            number(cell.lp_bound_ratio),
            count(cell.moved_out_bytes),
            count(cell.moved_in_bytes),
            number(cell.recompute_s),
            count(cell.recomputed_bytes),
            number(cell.page_overhead),
            cell.plan_s,
            quoted(&cell.verdict),
        );
    }
    text
}

fn number(number: Option<f64>) -> String {
    number.map_or(String::new(), |number| format!("{number:.6}"))
}

fn count(count: Option<u64>) -> String {
    count.map_or(String::new(), |count| count.to_string())
}

fn quoted(text: &str) -> String {
    if text.contains(['"', ',', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::cell::sample;

    #[test]
    fn the_header_is_the_keys_of_the_json() {
        let cells = [sample("a", "lru", Some(2.0)), sample("b", "lru", None)];
        let text = csv(&cells);
        let mut lines = text.lines();
        let json = serde_json::to_string(&cells[0]).expect("plain data");
        let keys: Vec<&str> = json.split('"').filter(|part| !part.is_empty()).collect();
        for key in lines.next().expect("a header").split(',') {
            assert!(keys.contains(&key), "{key} is not in {json}");
        }
        assert_eq!(
            lines.next(),
            Some(
                "a,d,0.500000,1000,lru,true,2.000000,1.000000,,10,20,0.250000,30,1.000000,\
                 0.500000,ok"
            )
        );
        assert_eq!(
            lines.next(),
            Some("b,d,0.500000,1000,lru,false,,1.000000,,,,,,,0.500000,\"no, \"\"none\"\"\"")
        );
    }
}
