//! Amounts and texts of quantities, compared with Kubernetes' results and with exact fractions.

use expect_test::{Expect, expect};
use proptest::prelude::*;

use super::*;

fn read(text: &str) -> String {
    match text.parse::<Quantity>() {
        Ok(quantity) => {
            format!("{quantity} = {} {:?} {}", quantity.as_i64(), quantity.format(), quantity.as_f64())
        }
        Err(error) => error.to_string(),
    }
}

fn check(texts: &[&str], expected: Expect) {
    let lines: Vec<String> = texts.iter().map(|text| format!("{text:?} {}\n", read(text))).collect();
    expected.assert_eq(&lines.concat());
}

#[test]
fn decimal_texts() {
    check(
        &[
            "0",
            "00",
            "-0",
            "1.5",
            "1.500",
            "+1",
            "0001",
            "1000",
            "0.5",
            ".5",
            "5.",
            "100m",
            "1000m",
            "0.100",
            "1E",
            "1T",
            "1000P",
            "1000000E",
            "2048",
            "-1.5",
            "1n",
            "0.1n",
            "0.0000000005",
            "1.0000000001",
            "12345678901234567891",
        ],
        expect![[r#"
            "0" 0 = 0 DecimalSi 0
            "00" 0 = 0 DecimalSi 0
            "-0" 0 = 0 DecimalSi 0
            "1.5" 1500m = 2 DecimalSi 1.5
            "1.500" 1.500 = 2 DecimalSi 1.5
            "+1" +1 = 1 DecimalSi 1
            "0001" 0001 = 1 DecimalSi 1
            "1000" 1k = 1000 DecimalSi 1000
            "0.5" 500m = 1 DecimalSi 0.5
            ".5" 500m = 1 DecimalSi 0.5
            "5." 5. = 5 DecimalSi 5
            "100m" 100m = 1 DecimalSi 0.1
            "1000m" 1 = 1 DecimalSi 1
            "0.100" 100m = 1 DecimalSi 0.1
            "1E" 1E = 1000000000000000000 DecimalSi 1000000000000000000
            "1T" 1T = 1000000000000 DecimalSi 1000000000000
            "1000P" 1E = 1000000000000000000 DecimalSi 1000000000000000000
            "1000000E" 1000000E = 9223372036854775807 DecimalSi 1000000000000000000000000
            "2048" 2048 = 2048 DecimalSi 2048
            "-1.5" -1500m = -2 DecimalSi -1.5
            "1n" 1n = 1 DecimalSi 0.000000001
            "0.1n" 1n = 1 DecimalSi 0.000000001
            "0.0000000005" 1n = 1 DecimalSi 0.000000001
            "1.0000000001" 1000000001n = 2 DecimalSi 1.000000001
            "12345678901234567891" 12345678901234567891 = 9223372036854775807 DecimalSi 12345678901234567000
        "#]],
    );
}

#[test]
fn exponent_texts() {
    check(
        &[
            "12e6",
            "1e3",
            "1e+3",
            "1E3",
            "1e2",
            "10e1",
            "0.5e1",
            "1e-1",
            "1e-3",
            "1500e-3",
            "1e21",
            "1e18",
            "1e-10",
            "1e-20",
            "-1e-10",
            "0e99999999",
            "1e-99999999",
        ],
        expect![[r#"
            "12e6" 12e6 = 12000000 DecimalExponent 12000000
            "1e3" 1e3 = 1000 DecimalExponent 1000
            "1e+3" 1e+3 = 1000 DecimalExponent 1000
            "1E3" 1E3 = 1000 DecimalExponent 1000
            "1e2" 100 = 100 DecimalExponent 100
            "10e1" 100 = 100 DecimalExponent 100
            "0.5e1" 5 = 5 DecimalExponent 5
            "1e-1" 100e-3 = 1 DecimalExponent 0.1
            "1e-3" 1e-3 = 1 DecimalExponent 0.001
            "1500e-3" 1500e-3 = 2 DecimalExponent 1.5
            "1e21" 1e21 = 9223372036854775807 DecimalExponent 1000000000000000000000
            "1e18" 1e18 = 1000000000000000000 DecimalExponent 1000000000000000000
            "1e-10" 1e-9 = 1 DecimalExponent 0.000000001
            "1e-20" 1e-9 = 1 DecimalExponent 0.000000001
            "-1e-10" -1e-9 = -1 DecimalExponent -0.000000001
            "0e99999999" 0 = 0 DecimalExponent 0
            "1e-99999999" 1e-9 = 1 DecimalExponent 0.000000001
        "#]],
    );
}

#[test]
fn binary_texts() {
    check(
        &[
            "100Ki",
            "8Ki",
            "1024Ki",
            "1023Ki",
            "1025Ki",
            "1536Mi",
            "1.5Gi",
            "5.Gi",
            "0.5Ki",
            "0.1Ki",
            "1.1Ki",
            "-1Ki",
            "3Ei",
            "8Ei",
            "9Ei",
            "-9Ei",
            "0.0000000001Gi",
            "123456789012345678901234567890Ki",
        ],
        expect![[r#"
            "100Ki" 100Ki = 102400 BinarySi 102400
            "8Ki" 8Ki = 8192 BinarySi 8192
            "1024Ki" 1Mi = 1048576 BinarySi 1048576
            "1023Ki" 1023Ki = 1047552 BinarySi 1047552
            "1025Ki" 1025Ki = 1049600 BinarySi 1049600
            "1536Mi" 1536Mi = 1610612736 BinarySi 1610612736
            "1.5Gi" 1536Mi = 1610612736 BinarySi 1610612736
            "5.Gi" 5.Gi = 5368709120 BinarySi 5368709120
            "0.5Ki" 512 = 512 BinarySi 512
            "0.1Ki" 102400m = 103 BinarySi 102.4
            "1.1Ki" 1126400m = 1127 BinarySi 1126.4
            "-1Ki" -1Ki = -1024 BinarySi -1024
            "3Ei" 3Ei = 3458764513820540928 BinarySi 3458764513820541000
            "8Ei" 9223372036854775807 = 9223372036854775807 BinarySi 9223372036854776000
            "9Ei" 9223372036854775807 = 9223372036854775807 BinarySi 9223372036854776000
            "-9Ei" -9223372036854775807 = -9223372036854775807 BinarySi -9223372036854776000
            "0.0000000001Gi" 107374183n = 1 DecimalSi 0.107374183
            "123456789012345678901234567890Ki" 9223372036854775807 = 9223372036854775807 BinarySi 9223372036854776000
        "#]],
    );
}

#[test]
fn strings_without_digits_are_zero_as_in_kubernetes() {
    check(
        &["-", "+", ".", "Ki", "e5"],
        expect![[r#"
        "-" 0 = 0 DecimalSi 0
        "+" 0 = 0 DecimalSi 0
        "." 0 = 0 DecimalSi 0
        "Ki" 0 = 0 BinarySi 0
        "e5" 0 = 0 DecimalExponent 0
    "#]],
    );
}

#[test]
fn strings_that_are_no_quantity() {
    check(
        &[
            "",
            "5 ",
            " 5",
            "5x",
            "0x1",
            "1..5",
            "1.5.5",
            "1_000",
            "１",
            "5kk",
            "1i",
            "1Kii",
            "e",
            "1e",
            "--1",
            "1e99999999999999999999",
            "e-20",
            ".e-20",
        ],
        expect![[r#"
            "" quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'
            "5 " quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'
            " 5" quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'
            "5x" quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'
            "0x1" quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'
            "1..5" quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'
            "1.5.5" quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'
            "1_000" quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'
            "１" quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'
            "5kk" unable to parse quantity's suffix
            "1i" unable to parse quantity's suffix
            "1Kii" unable to parse quantity's suffix
            "e" unable to parse quantity's suffix
            "1e" unable to parse quantity's suffix
            "--1" unable to parse quantity's suffix
            "1e99999999999999999999" unable to parse quantity's suffix
            "e-20" unable to parse numeric part of quantity
            ".e-20" unable to parse numeric part of quantity
        "#]],
    );
}

#[test]
fn quantities_have_one_canonical_form() {
    for (text, canonical) in [
        ("1", "1"),
        ("0.5", "500m"),
        ("1.5", "1500m"),
        ("1000m", "1"),
        ("1000", "1k"),
        ("1500", "1500"),
        ("1024Mi", "1Gi"),
        ("1500Mi", "1500Mi"),
        ("0.5Gi", "512Mi"),
        ("512Ki", "512Ki"),
        ("0.5Ki", "512"),
        ("1e3", "1e3"),
        ("12e6", "12e6"),
        ("1E", "1E"),
        ("0", "0"),
        ("0Mi", "0"),
        ("-1", "-1"),
        (".5", "500m"),
        ("100000000n", "100m"),
        ("1e-1", "100e-3"),
    ] {
        assert_eq!(text.parse::<Quantity>().unwrap().to_string(), canonical, "{text}");
    }
}

#[test]
fn kubernetes_stores_amounts_above_its_largest_suffix_without_a_suffix() {
    for (text, stored) in [
        ("1000E", "1"),
        ("1000000E", "1"),
        ("1500000E", "1500"),
        ("-1000E", "-1"),
        ("1000000000000000000000", "1"),
        ("999E", "999E"),
        ("1500E", "1500E"),
        ("1e21", "1e21"),
        ("99999999999999999999999", "99999999999999999999999"),
        ("1000000Ei", "9223372036854775807"),
        ("1024Mi", "1Gi"),
        ("0", "0"),
        ("0m", "0"),
    ] {
        let quantity: Quantity = text.parse().unwrap();
        assert_eq!(quantity.stored_text(), stored, "{text}");
        assert_eq!(quantity.to_string().parse(), Ok(quantity), "{text} is printed as the same amount elsewhere");
    }
}

#[test]
fn invalid_quantities_are_refused() {
    for text in ["", "abc", "x", "1.2.3", "1Kib", "1 Gi", "--1", "1e"] {
        assert!(text.parse::<Quantity>().is_err(), "{text}");
    }
}

#[test]
fn comparison_ignores_the_way_it_is_written() {
    let quantity = |text: &str| text.parse::<Quantity>().unwrap();
    assert_eq!(quantity("1Gi"), quantity("1073741824"));
    assert_eq!(quantity("1Ki"), quantity("1024"));
    assert_eq!(quantity("500m"), quantity("0.5"));
    assert_eq!(quantity("1e3"), quantity("1k"));
    assert!(quantity("500m") < quantity("1") && quantity("-1") < quantity("1n"));
}

#[test]
fn whole_numbers_can_count_and_thousandths_are_rounded_away_from_zero() {
    let quantity = |text: &str| text.parse::<Quantity>().unwrap();
    assert!(quantity("1000m").is_integer() && quantity("1e30").is_integer() && !quantity("500m").is_integer());
    assert_eq!(
        ["2Gi", "-3", "1.5", "1e30"].map(|text| quantity(text).as_exact_i64()),
        [Some(2 << 30), Some(-3), None, None]
    );
    let rounded = |text: &str| quantity(text).rounded_up_to_milli().to_string();
    assert_eq!(
        ["0.1m", "-0.1m", "1.500", "1500001u", "0.0001Ki"].map(rounded),
        ["1m", "-1m", "1.500", "1501m", "103m"],
        "a text is kept where nothing is rounded"
    );
    assert_eq!((quantity("1.2").as_i64(), quantity("250m").as_milli()), (2, 250));
}

/// Kubernetes computes amounts of any size. The quantities of the API server used to stop at the largest 64-bit integer,
/// and those of its expressions refused 1e19; the limit of the exponent is stricter than both.
#[test]
fn large_amounts_are_exact_up_to_the_limit_and_refused_beyond() {
    let quantity = |text: &str| text.parse::<Quantity>();
    assert!(quantity("99999999999999999999999999999999E").unwrap() < quantity("1e99").unwrap());
    assert_eq!(quantity("1e2000000000"), Err(QuantityError::Number));
    assert_eq!(quantity("1e-2000000000").unwrap(), quantity("1n").unwrap());
}

#[test]
fn amounts_beyond_the_limits_are_refused_rather_than_worked_out() {
    assert_eq!("1e1001".parse::<Quantity>(), Err(QuantityError::Number));
    assert_eq!("1e9223372036854775807".parse::<Quantity>(), Err(QuantityError::Number));
    assert_eq!("1".repeat(TEXT_MAX_BYTES + 1).parse::<Quantity>(), Err(QuantityError::Number));
    assert!("1e1000".parse::<Quantity>().is_ok());
}

#[test]
fn audit_fuzzing_sums_stay_at_the_largest_amount_and_can_be_read() {
    let texts = ["1e1000", "10e999", "9e999", "1", "1Ki", "3e-9", "0"];
    for (left, right) in texts.iter().flat_map(|left| texts.iter().map(move |right| (left, right))) {
        let (one, other): (Quantity, Quantity) = (left.parse().unwrap(), right.parse().unwrap());
        for sum in [&one + &other, &one - &other, &(&one + &other) + &other, &-&one - &other] {
            let read = sum.to_string().parse::<Quantity>();
            assert!(read.is_ok(), "{left} and {right} give {sum}");
            // As in Kubernetes, reading stops at the largest 64-bit integer where the suffix is binary.
            assert!(read == Ok(sum.clone()) || sum.format() == Format::BinarySi, "{left} and {right} give {sum}");
        }
    }
    let largest: Quantity = "1e1000".parse().unwrap();
    assert_eq!((&(&largest + &largest), (&-&largest - &largest)), (&largest, -&largest));
    assert_eq!("2e1000".parse::<Quantity>(), Err(QuantityError::Number));
}

#[test]
fn sums_keep_the_format_of_the_first_operand() {
    let sums: Vec<String> = [("1Ki", "1"), ("0", "1Ki"), ("1", "1Ki"), ("1.5", "500m"), ("1Gi", "512Mi")]
        .iter()
        .map(|(left, right)| {
            let (left, right): (Quantity, Quantity) = (left.parse().unwrap(), right.parse().unwrap());
            format!("{} {} {}\n", &left + &right, &left - &right, -&left)
        })
        .collect();
    expect![[r"
        1025 1023 -1Ki
        1Ki -1Ki 0
        1025 -1023 -1
        2 1 -1500m
        1536Mi 512Mi -1Gi
    "]]
    .assert_eq(&sums.concat());
}

#[test]
fn whole_numbers_and_thousandths_round_away_from_zero_and_stop_at_the_bounds() {
    let quantity = |text: &str| text.parse::<Quantity>().unwrap();
    assert_eq!((quantity("1.0001").as_i64(), quantity("1.0001").as_milli()), (2, 1001));
    assert_eq!((quantity("-1.0001").as_i64(), quantity("-1.0001").as_milli()), (-2, -1001));
    assert_eq!((quantity("1e30").as_i64(), quantity("-1e30").as_milli()), (i64::MAX, i64::MIN));
}

#[test]
fn quantities_from_numbers() {
    assert_eq!(Quantity::from_i64(2048, Format::BinarySi).to_string(), "2Ki");
    assert_eq!(Quantity::from_milli(2500, Format::DecimalSi).to_string(), "2500m");
    assert_eq!(Quantity::zero().to_string(), "0");
    assert!(Quantity::from_i64(-1, Format::DecimalSi).is_negative());
}

#[test]
fn json_may_be_a_string_or_a_number() {
    let quantities: Vec<Quantity> = serde_json::from_str(r#"["1500m", 3, " 1Gi ", 0.5]"#).unwrap();
    assert_eq!(serde_json::to_string(&quantities).unwrap(), r#"["1500m","3","1Gi","500m"]"#);
    assert!(serde_json::from_str::<Quantity>("true").is_err());
}

/// Numerator and denominator of a text's amount, computed by other means than the code under test.
fn fraction(whole: u64, behind: &str, suffix: &str) -> (BigInt, BigInt) {
    let digits: BigInt = format!("{whole}{behind}").parse().unwrap();
    let denominator = BigInt::from(10).pow(u32::try_from(behind.len()).unwrap());
    let (up, down) = match suffix {
        "" => (1, 1),
        "m" | "e-3" => (1, 1_000),
        "k" => (1_000, 1),
        "M" | "e6" => (1_000_000, 1),
        "Ki" => (1 << 10, 1),
        "Gi" => (1 << 30, 1),
        other => panic!("no such suffix: {other}"),
    };
    (digits * BigInt::from(up), denominator * BigInt::from(down))
}

#[test]
fn a_quantity_whose_printed_form_could_not_be_read_is_refused() {
    for (text, is_read) in [
        ("1e1000".to_owned(), true),
        ("1000e1000".to_owned(), false),
        (format!("{}E", "9".repeat(982)), true),
        (format!("{}E", "9".repeat(983)), false),
        (format!("{}e999", "9".repeat(2)), false),
        (format!("{}e101", "7".repeat(4092)), false),
        (format!("1{}e900", "0".repeat(200)), false),
        (format!("0.{}1", "0".repeat(4000)), true),
    ] {
        let read = text.parse::<Quantity>();
        assert_eq!(read.is_ok(), is_read, "{text}");
        if let Ok(quantity) = read {
            assert_eq!(quantity.to_string().parse(), Ok(quantity), "{text}");
        }
    }
}

prop_compose! {
    fn written()(
        negative: bool,
        whole in prop_oneof![0_u64..2000, 0_u64..1_000_000_000],
        behind in "[0-9]{0,6}",
        suffix in prop::sample::select(vec!["", "m", "k", "M", "Ki", "Gi", "e6", "e-3"]),
    ) -> (String, BigInt, BigInt) {
        let (mut numerator, denominator) = fraction(whole, &behind, suffix);
        let (sign, point) = (if negative { "-" } else { "" }, if behind.is_empty() { "" } else { "." });
        if negative {
            numerator = -numerator;
        }
        (format!("{sign}{whole}{point}{behind}{suffix}"), numerator, denominator)
    }
}

proptest! {
    #[test]
    fn order_is_that_of_exact_fractions((left, ln, ld) in written(), (right, rn, rd) in written()) {
        let exact = (&ln * &rd).cmp(&(&rn * &ld));
        let (left, right): (Quantity, Quantity) = (left.parse().unwrap(), right.parse().unwrap());
        prop_assert_eq!(left.cmp(&right), exact);
    }

    #[test]
    fn printed_quantities_are_read_back((text, _, _) in written()) {
        let quantity: Quantity = text.parse().unwrap();
        let again: Quantity = quantity.to_string().parse().unwrap();
        prop_assert_eq!(&again, &quantity);
        let canonical = Quantity { written: None, ..quantity }.to_string();
        let reread = Quantity { written: None, ..canonical.parse::<Quantity>().unwrap() };
        prop_assert_eq!(reread.to_string(), canonical);
    }

    #[test]
    fn sums_are_exact_and_undone_by_differences((left, ln, ld) in written(), (right, rn, rd) in written()) {
        let (left, right): (Quantity, Quantity) = (left.parse().unwrap(), right.parse().unwrap());
        let sum = &left + &right;
        prop_assert_eq!(&sum.billionths * &ld * &rd, (&ln * &rd + &rn * &ld) * ten_to(KEPT_DIGITS));
        prop_assert_eq!(&(&sum - &right), &left);
    }

    #[test]
    fn no_input_panics(text in prop_oneof![".{0,12}", "[-+]?[0-9.]{0,9}[eEinumkKMGTP]{0,2}[-+]?[0-9]{0,22}"]) {
        if let Ok(quantity) = text.parse::<Quantity>() {
            prop_assert_eq!(quantity.to_string().parse::<Quantity>(), Ok(quantity));
        }
    }
}
