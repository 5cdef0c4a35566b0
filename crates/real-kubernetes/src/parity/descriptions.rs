//! Masks the descriptions of built-in kinds in `kubectl explain`, which each server words differently. Descriptions of custom
//! kinds must be unchanged and are compared.

/// Placeholder for a description.
pub(super) const STAND_IN: &str = "<words>";

/// Custom kinds of the cases live in groups below this domain.
const CUSTOM_DOMAIN: &str = "example.com";

/// The output of `kubectl explain` with descriptions replaced; any other text as it is.
pub(super) fn without_explanations(text: &str) -> String {
    let is_explanation =
        text.lines().any(|line| line == "DESCRIPTION:") && text.lines().any(|l| l.starts_with("KIND:"));
    let is_custom = text.lines().any(|line| line.starts_with("GROUP:") && line.contains(CUSTOM_DOMAIN));
    if !is_explanation || is_custom {
        return text.to_owned();
    }
    let mut kept: Vec<String> = Vec::new();
    let mut in_description = false;
    for line in text.lines() {
        let is_indented = line.starts_with("    ");
        if line == "DESCRIPTION:" {
            in_description = true;
            kept.extend([line.to_owned(), format!("    {STAND_IN}")]);
        } else if !line.is_empty() && !line.starts_with(' ') {
            in_description = false;
            kept.push(line.to_owned());
        } else if !in_description && !is_indented {
            kept.push(line.to_owned());
        }
    }
    kept.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;

    const EXPLAINED: &str = "KIND:       ConfigMap\nVERSION:    v1\n\nDESCRIPTION:\n    Settings.\n\n    More.\n\
                             FIELDS:\n  data\t<map[string]string>\n    What it holds.\n\n";

    #[test]
    fn an_explanation_keeps_its_fields_without_descriptions() {
        expect![[r"
            KIND:       ConfigMap
            VERSION:    v1

            DESCRIPTION:
                <words>
            FIELDS:
              data	<map[string]string>
        "]]
        .assert_eq(&without_explanations(EXPLAINED));
    }

    #[test]
    fn descriptions_of_custom_kinds_are_kept() {
        let custom = format!("GROUP:      p7.example.com\n{EXPLAINED}");
        assert_eq!(without_explanations(&custom), custom);
    }

    #[test]
    fn other_output_is_unchanged() {
        let other = "NAME   AGE\nDESCRIPTION:\n    x";
        assert_eq!(without_explanations(other), other);
    }
}
