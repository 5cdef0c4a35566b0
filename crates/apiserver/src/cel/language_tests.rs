//! The language itself: expressions without a schema.

use expect_test::{Expect, expect};

use super::check::check;
use super::eval::Evaluation;
use super::issue;
use super::parser::parse;
use super::types::Ty;
use super::value::{Text, Val};

/// What an expression gives; `x` is a dynamic int, `s` a dynamic text.
fn outcome(source: &str) -> String {
    let mut expr = match parse(source) {
        Ok(expr) => expr,
        Err(found) => return issue::shown(&[found], source),
    };
    if let Err(found) = check(&mut expr, &[("x", Ty::Dyn), ("s", Ty::Dyn)]) {
        return issue::shown(&found, source);
    }
    let variables = vec![("x", Val::Int(7)), ("s", Val::Text(Text::Borrowed("seven")))];
    let mut evaluation = Evaluation::new(variables, 1_000_000);
    match evaluation.eval(&expr) {
        Ok(Val::Bool(flag)) => flag.to_string(),
        Ok(other) => other.type_name().to_owned(),
        Err(fault) => fault.to_string(),
    }
}

fn holds(lines: &str) {
    for line in lines.lines().map(str::trim).filter(|line| !line.is_empty()) {
        assert_eq!(outcome(line), "true", "{line}");
    }
}

#[allow(clippy::needless_pass_by_value)] // expect! literals at every call
fn fails(source: &str, expected: Expect) {
    expected.assert_eq(&outcome(source));
}

#[test]
fn operators() {
    holds(
        r"
        1 + 2 * 3 == 7 && (1 + 2) * 3 == 9 && 7 / 2 == 3 && -7 / 2 == -3 && 7 % 4 == 3
        1.5 + 1.5 == 3.0 && 2.0 * 3.0 == 6.0 && -(-3) == 3 && !false && !!true
        1u + 2u == 3u && 'a' + 'b' == 'ab' && b'a' + b'b' == b'ab' && [1] + [2] == [1, 2]
        1 < 2 && 2.0 > 1 && 1u <= 1 && 'a' < 'b' && false < true && b'a' < b'b'
        dyn(1) == 1.0 && dyn(1) == 1u && dyn(1) != '1' && [1] != [1, 2]
        1 in [1, 2] && !(3 in [1, 2]) && 'k' in {'k': 1} && !('z' in {'k': 1})
        x == 7 ? true : false
        -9223372036854775808 < 0
        {'a': 1, 'b': 2} == {'b': 2, 'a': 1} && {'a': 1}.a == 1 && {'a': 1}['a'] == 1 && {1: 'x'}[1] == 'x'
        [1, 2, 3][1] == 2 && [[1], [2]][1][0] == 2
        true || 1 / 0 == 1
        1 / 0 == 1 || true
        !(false && 1 / 0 == 1) && !(1 / 0 == 1 && false)
        ",
    );
    fails("1 / 0 == 1", expect!["division by zero"]);
    fails("1 % 0 == 1", expect!["modulus by zero"]);
    fails("9223372036854775807 + 1 == 0", expect!["integer overflow"]);
    fails("1u - 2u == 0u", expect!["unsigned integer overflow"]);
    fails("[1][5] == 1", expect!["index out of bounds: 5"]);
    fails("{'a': 1}.b == 1", expect!["no such key: b"]);
    fails("x + s == 1", expect!["no such overload"]);
    fails("{'a': 1, 'a': 2} == {}", expect!["insert failed: key a already exists"]);
}

#[test]
fn macros() {
    holds(
        r"
        [1, 2, 3].all(i, i > 0) && ![1, 2, 3].all(i, i > 1) && [].all(i, i > 0)
        [1, 2, 3].exists(i, i == 2) && [1, 2, 2].exists_one(i, i == 1) && ![1, 2, 2].exists_one(i, i == 2)
        [1, 2, 3].filter(i, i > 1) == [2, 3] && [1, 2].map(i, i * 2) == [2, 4] && [1, 2, 3].map(i, i > 1, i * 2) == [4, 6]
        {'a': 1, 'b': 2}.all(k, k < 'c') && {'a': 1}.map(k, k + k) == ['aa'] && {'a': 1, 'b': 2}.filter(k, k == 'b') == ['b']
        has({'a': 1}.a) && !has({'a': 1}.b)
        [0, 1].exists(i, 1 / i == 1) && ![0, 1].all(i, 1 / i == 2)
        [10, 20].all(i, v, v == (i + 1) * 10) && {'a': 1}.exists(k, v, k == 'a' && v == 1) && [5].existsOne(i, v, i == 0)
        [1, 2].transformList(i, v, i + v) == [1, 3] && [1, 2, 3].transformList(i, v, i > 0, v) == [2, 3]
        {'a': 1}.transformMap(k, v, v + 1) == {'a': 2}
        [[1, 2], [3]].map(l, l.filter(i, i > 1).size()) == [1, 1]
        ",
    );
    fails("[0].all(i, 1 / i == 1)", expect!["division by zero"]);
    fails(
        "has(x)",
        expect![[r"
        ERROR: <input>:1:5: invalid argument to has() macro
         | has(x)
         | ....^"]],
    );
    fails(
        "1.all(i, true)",
        expect![[r"
        ERROR: <input>:1:1: expression of type 'int' cannot be range of a comprehension (must be list, map, or dynamic)
         | 1.all(i, true)
         | ^"]],
    );
    fails(
        "[1].all(x.y, true)",
        expect![[r"
        ERROR: <input>:1:10: argument must be a simple name
         | [1].all(x.y, true)
         | .........^"]],
    );
    fails(
        "[1].all(i, i)",
        expect![[r"
        ERROR: <input>:1:12: expected type 'bool' but found 'int'
         | [1].all(i, i)
         | ...........^"]],
    );
}

#[test]
fn string_functions() {
    holds(
        r#"
        'hello'.contains('ell') && 'hello'.startsWith('he') && 'hello'.endsWith('lo') && 'hello'.size() == 5 && size('é') == 1
        'abc'.matches('^[a-c]+$') && matches('abc', 'b') && 'a1b22'.find('[0-9]+') == '1' && 'a1b22'.findAll('[0-9]+') == ['1', '22']
        'a1b22'.findAll('[0-9]+', 1) == ['1'] && 'x'.find('[0-9]') == ''
        'hello'.indexOf('l') == 2 && 'hello'.indexOf('l', 3) == 3 && 'hello'.indexOf('z') == -1 && 'hello'.lastIndexOf('l') == 3 && 'hello'.lastIndexOf('l', 2) == 2
        'AbC'.lowerAscii() == 'abc' && 'AbC'.upperAscii() == 'ABC' && ' a '.trim() == 'a' && 'abc'.charAt(1) == 'b' && 'abc'.charAt(3) == ''
        'aXbXc'.replace('X', '-') == 'a-b-c' && 'aXbXc'.replace('X', '-', 1) == 'a-bXc' && 'abc'.substring(1) == 'bc' && 'abc'.substring(1, 2) == 'b'
        'a,b,c'.split(',') == ['a', 'b', 'c'] && 'a,b,c'.split(',', 2) == ['a', 'b,c'] && 'ab'.split('') == ['a', 'b'] && 'a'.split(',', 0) == []
        ['a', 'b'].join('-') == 'a-b' && ['a', 'b'].join() == 'ab' && [].join() == ''
        '%s has %d of %.2f%%'.format(['a', 2, 1.5]) == 'a has 2 of 1.50%' && '%s'.format([{'k': ['v']}]) == '{"k": ["v"]}' && '%s'.format([[1, 'x', true]]) == '[1, "x", true]'
        '%x %X %o %b %e'.format([255, 255, 8, 5, 1500.0]) == 'ff FF 10 101 1.500000e+03'
        strings.quote('a"b') == '"a\\"b"' && r'\d' == '\\d'
        "#,
    );
    fails("'abc'.charAt(9) == ''", expect!["index out of range: 9"]);
    fails(
        "'%d'.format(['a']) == ''",
        expect![[r"
            ERROR: <input>:1:14: error during formatting: decimal clause can only be used on integers, was given string
             | '%d'.format(['a']) == ''
             | .............^"]],
    );
    fails(
        "'a'.matches('[')",
        expect![[r"
            ERROR: <input>:1:13: invalid matches argument
             | 'a'.matches('[')
             | ............^"]],
    );
    fails("s.matches('[' + '')", expect!["error parsing regexp: missing closing ]: `[`"]);
}

#[test]
fn conversions_and_types() {
    holds(
        r"
        int('42') == 42 && int(3.9) == 3 && int(2u) == 2 && uint(2) == 2u && double('1.5') == 1.5 && double(2) == 2.0
        string(1) == '1' && string(1.0) == '1' && string(true) == 'true' && string(b'a') == 'a' && bytes('a') == b'a' && bool('true')
        type(1) == int && type('a') == string && type(1.0) == double && type([]) == list && type({}) == map && type(null) == null_type
        type(x) == int && type(s) != int && type(type(1)) == type && type(duration('1s')) == google.protobuf.Duration
        ",
    );
    fails("int('x') == 1", expect!["type conversion error from 'string' to 'int'"]);
    fails("uint(-1) == 1u", expect!["unsigned integer overflow"]);
    fails("int(1e300) == 1", expect!["integer overflow"]);
}

#[test]
fn time() {
    holds(
        r"
        duration('1h') + duration('30m') == duration('90m') && duration('90s') > duration('1m') && string(duration('90s')) == '90s'
        timestamp('2024-01-01T00:00:00Z') + duration('24h') == timestamp('2024-01-02T00:00:00Z')
        timestamp('2024-01-02T00:00:00Z') - timestamp('2024-01-01T00:00:00Z') == duration('24h')
        timestamp('2024-03-05T06:07:08.009Z').getMonth() == 2 && timestamp('2024-03-05T06:07:08Z').getDate() == 5
        timestamp('2024-03-05T06:07:08Z').getHours('+02:00') == 8 && timestamp('2024-03-05T06:07:08Z').getDayOfWeek() == 2
        timestamp('2024-03-05T06:07:08Z').getDayOfYear() == 64 && duration('61s').getMinutes() == 1
        timestamp('2024-01-01T00:00:00+02:00') == timestamp('2023-12-31T22:00:00Z') && int(timestamp('1970-01-01T00:00:10Z')) == 10
        ",
    );
    fails(
        "duration('soon') == duration('1s')",
        expect![[r"
        ERROR: <input>:1:10: invalid duration argument
         | duration('soon') == duration('1s')
         | .........^"]],
    );
    fails(
        "timestamp(s) == timestamp(s)",
        expect!["type conversion error from 'string' to 'google.protobuf.Timestamp'"],
    );
}

#[test]
fn lists() {
    holds(
        r"
        [1, 2, 2].isSorted() && !['b', 'a'].isSorted() && [1, 2, 3].sum() == 6 && [1.5, 1.5].sum() == 3.0 && [3, 1].min() == 1 && ['a', 'c'].max() == 'c'
        [1, 2, 1].indexOf(1) == 0 && [1, 2, 1].lastIndexOf(1) == 2 && [1].indexOf(9) == -1
        [].sum() == 0
        sets.contains([1, 2], [1]) && sets.equivalent([1, 1, 2], [2, 1]) && sets.intersects([1, 2], [2, 3]) && !sets.contains([1], [2])
        ",
    );
    fails("[].min() == 1", expect!["min called on empty list"]);
    fails(
        "[1, 'a'].size() == 2",
        expect![[r"
        ERROR: <input>:1:5: expected type 'int' but found 'string'
         | [1, 'a'].size() == 2
         | ....^"]],
    );
}

#[test]
fn optionals() {
    holds(
        r"
        optional.of(1).hasValue() && !optional.none().hasValue() && optional.of(1).value() == 1 && optional.none().orValue(2) == 2
        {'a': 1}.?a.orValue(0) == 1 && {'a': 1}.?b.orValue(0) == 0 && [1][?0].value() == 1 && ![1][?5].hasValue()
        {'a': {'b': 1}}.?a.b.orValue(0) == 1 && optional.of(2).optMap(v, v + 1).value() == 3 && optional.none().optMap(v, v).orValue(9) == 9
        optional.of(1).optFlatMap(v, optional.none()).orValue(5) == 5 && optional.none().or(optional.of(1)).value() == 1
        !optional.ofNonZeroValue('').hasValue() && optional.ofNonZeroValue('a').hasValue()
        [?optional.of(1), ?optional.none()] == [1] && {?'a': optional.none()} == {}
        ",
    );
    fails("optional.none().value() == 1", expect!["optional.none() dereference"]);
}

#[test]
fn the_kubernetes_library() {
    holds(
        r"
        quantity('1Ki') == quantity('1024') && quantity('500m').isLessThan(quantity('1')) && quantity('2').add(quantity('1')).asInteger() == 3
        quantity('1').compareTo(quantity('1')) == 0 && !quantity('1.5').isInteger() && quantity('-1').sign() == -1 && isQuantity('1Gi') && !isQuantity('x')
        quantity('1500m').asApproximateFloat() == 1.5 && quantity('3').sub(1).asInteger() == 2 && quantity('2').isGreaterThan(quantity('1'))
        url('https://user@example.com:80/a%20b?x=1&x=2').getHost() == 'example.com:80' && url('https://[::1]:80/').getHostname() == '::1'
        url('https://example.com:80/p').getPort() == '80' && url('/path').getEscapedPath() == '/path' && url('https://a/?x=1&y=2&x=3').getQuery()['x'] == ['1', '3']
        url('HTTPS://a').getScheme() == 'https' && isURL('https://a') && !isURL('not a url') && !isURL('a')
        ip('10.0.0.1').family() == 4 && ip('::1').isLoopback() && isIP('::') && !isIP('10.0.0') && ip('0.0.0.0').isUnspecified() && ip('8.8.8.8').isGlobalUnicast()
        ip('169.254.0.1').isLinkLocalUnicast() && ip('224.0.0.1').isLinkLocalMulticast() && ip.isCanonical('::1') && !ip.isCanonical('::0001') && string(ip('10.0.0.1')) == '10.0.0.1'
        cidr('10.0.0.0/8').containsIP('10.1.2.3') && !cidr('10.0.0.0/8').containsIP(ip('11.0.0.1')) && cidr('10.0.0.0/8').containsCIDR('10.1.0.0/16')
        cidr('10.1.2.3/8').masked() == cidr('10.0.0.0/8') && cidr('10.1.2.3/8').ip() == ip('10.1.2.3') && cidr('::/0').prefixLength() == 0 && isCIDR('::/0') && !isCIDR('::/129')
        semver('1.2.3').isLessThan(semver('1.10.0')) && semver('v1.2', true).minor() == 2 && isSemver('1.0.0-rc.1') && !isSemver('1.0') && semver('1.2.3').patch() == 3
        !format.dns1123Label().validate('a-b').hasValue() && format.dns1123Label().validate('A').hasValue() && format.named('uuid').hasValue() && !format.named('zip').hasValue()
        ",
    );
    fails(
        "quantity('x').isInteger()",
        expect!["quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"],
    );
    fails("quantity('1.5').asInteger() == 1", expect!["cannot convert value to integer"]);
}

#[test]
fn ill_typed_expressions_are_refused_before_evaluation() {
    for (source, part) in [
        ("1 + 'a' == 2", "1:3: found no matching overload for '_+_' applied to '(int, string)'"),
        ("nope(1)", "1:5: undeclared reference to 'nope' (in container '')"),
        ("'a'.nope()", "1:9: undeclared reference to 'nope' (in container '')"),
        ("true ? 1 : 'a'", "1:6: found no matching overload for '_?_:_' applied to '(bool, int, string)'"),
        ("1 && true", "1:1: expected type 'bool' but found 'int'"),
        ("'a' == null", "found no matching overload for '_==_' applied to '(string, null)'"),
        ("'a'.b == 1", "1:4: type 'string' does not support field selection"),
        ("[1]['a'] == 1", "found no matching overload for '_[_]' applied to '(list(int), string)'"),
        ("namespace == 1", "reserved identifier: namespace"),
        ("1 +", "mismatched input '<EOF>'"),
        ("(1", "missing ')' at '<EOF>'"),
        ("1 2", "mismatched input '2'"),
        ("'open", "token recognition error"),
        ("9223372036854775808 == 1", "invalid int literal"),
    ] {
        let found = outcome(source);
        assert!(found.contains(part), "{source}: {found}");
    }
}

#[test]
fn deep_and_long_expressions_are_refused() {
    for source in [
        "(".repeat(5000) + "1" + &")".repeat(5000),
        "[".repeat(5000),
        "-".repeat(5000) + "1",
        "!".repeat(5000) + "true",
        "1".to_owned() + &" + 1".repeat(5000),
        "x".to_owned() + &".a".repeat(5000),
        "true ? true : ".repeat(2000) + "true",
        "'%s'.format([".repeat(100) + "1" + &"])".repeat(100) + " + 1",
        "[1].map(x, ".repeat(300) + "1" + &")".repeat(300),
    ] {
        let found = outcome(&source);
        assert!(
            ["recursion limit exceeded", "mismatched", "no matching overload"].iter().any(|text| found.contains(text)),
            "{}",
            &found[..80]
        );
    }
    assert!(outcome(&" ".repeat(100_001)).contains("code point size exceeds limit: size: 100001, limit 100000"));
    assert_eq!(outcome(&("true".to_owned() + &" && true".repeat(5000))), "true");
}
