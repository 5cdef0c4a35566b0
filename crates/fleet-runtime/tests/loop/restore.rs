//! An API server that is restored from a backup: the first watch or write that detects it makes all kinds be listed again.

use std::time::Duration;

use kube::api::PostParams;

use crate::faulty_client::{Fault, FaultyClient};
use crate::fixture::{CHILDREN, PARENTS, Running, TestServer, child_of, child_runtime, start};

/// Longer than any watch request: a watch that is stalled for so long detects nothing within the test.
const STALLED: Duration = Duration::from_mins(10);

/// A server with many more writes than its backup.
async fn ahead_of_its_backup() -> TestServer {
    let server = TestServer::new().await;
    for count in (0..=20).rev() {
        server.put_parent("a", count).await;
        server.put_parent("b", count).await;
    }
    server.put_parent("a", 2).await;
    server
}

/// Starts the controller and waits until it is idle.
async fn running_on(server: &TestServer) -> (FaultyClient, Running) {
    let faulty = server.faulty_client();
    let (runtime, _) = child_runtime(faulty.client(), server.options());
    let running = start(runtime);
    running.settled().await;
    (faulty, running)
}

fn lists(faulty: &FaultyClient, namespace: &str) -> usize {
    faulty.count("GET", &format!("namespaces/{namespace}/configmaps?limit="))
}

#[tokio::test(start_paused = true)]
async fn audit_20_a_restore_that_one_kind_detects_lists_all_kinds_at_once() {
    let (server, backup) = (ahead_of_its_backup().await, TestServer::new().await);
    backup.put_parent("a", 1).await;
    let (faulty, running) = running_on(&server).await;
    assert_eq!(server.child_names().await, ["a-000", "a-001"]);
    // The watch of parents is rejected until they are listed again; that of children is stalled.
    faulty.inject("WATCH", PARENTS, 3, Fault::Status(504));
    faulty.inject("WATCH", CHILDREN, 1, Fault::StalledWatch(STALLED));
    faulty.switch_to(&backup);
    tokio::time::sleep(Duration::from_secs(10)).await;
    running.settled().await;
    assert_eq!(backup.child_names().await, ["a-000"]);
    assert_eq!([PARENTS, CHILDREN].map(|kind| lists(&faulty, kind)), [2, 2], "each kind is listed once more");
    backup.put_parent("c", 1).await;
    running.settled().await;
    assert_eq!(backup.child_names().await, ["a-000", "c-000"], "both kinds are watched from there");
    tokio::time::sleep(Duration::from_mins(30)).await;
    assert_eq!([PARENTS, CHILDREN].map(|kind| lists(&faulty, kind)), [2, 2], "and not again");
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn audit_20_objects_from_before_and_after_a_restore_do_not_meet_in_one_plan() {
    let (server, backup) = (ahead_of_its_backup().await, TestServer::new().await);
    let (faulty, running) = running_on(&server).await;
    // Children are listed again at once and are gone; parents cannot be listed for a while, and they are gone, too.
    faulty.inject("WATCH", CHILDREN, 3, Fault::Status(504));
    faulty.inject("WATCH", PARENTS, 1, Fault::StalledWatch(STALLED));
    faulty.inject("GET", &format!("namespaces/{PARENTS}/configmaps?limit="), 5, Fault::Status(429));
    faulty.switch_to(&backup);
    tokio::time::sleep(Duration::from_mins(3)).await;
    running.settled().await;
    assert_eq!(lists(&faulty, PARENTS), 7, "the first list, five that failed, and one more");
    assert_eq!(faulty.count("POST", CHILDREN), 2, "no child is created for a parent that is gone");
    assert!(backup.child_names().await.is_empty());
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn audit_20_a_restore_to_higher_revisions_is_detected_after_an_outage() {
    let (server, backup) = (TestServer::new().await, TestServer::new().await);
    server.put_parent("a", 2).await;
    for _ in 0..40 {
        backup.put_parent("b", 0).await;
    }
    let (faulty, running) = running_on(&server).await;
    assert_eq!(faulty.count("POST", CHILDREN), 2);
    // The server is down for a while. Children are listed again first, and are gone. Parents are gone, too.
    faulty.inject("WATCH", CHILDREN, 2, Fault::Refuse);
    faulty.inject("WATCH", CHILDREN, 1, Fault::Status(410));
    faulty.inject("WATCH", PARENTS, 6, Fault::Refuse);
    faulty.switch_to(&backup);
    tokio::time::sleep(Duration::from_mins(3)).await;
    running.settled().await;
    assert_eq!([PARENTS, CHILDREN].map(|kind| lists(&faulty, kind)), [2, 2], "each kind is listed once more");
    assert_eq!(faulty.count("POST", CHILDREN), 2, "no child is created for a parent that is gone");
    assert!(backup.child_names().await.is_empty());
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn audit_20_a_response_with_an_older_revision_detects_a_restore() {
    let (server, backup) = (ahead_of_its_backup().await, TestServer::new().await);
    backup.put_parent("a", 1).await;
    let (faulty, running) = running_on(&server).await;
    // A write is due on the backup, and all watches are stalled.
    faulty.inject("POST", CHILDREN, 4, Fault::Status(503));
    server.put_parent("a", 3).await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    faulty.inject("WATCH", "", 2, Fault::StalledWatch(STALLED));
    faulty.switch_to(&backup);
    tokio::time::sleep(Duration::from_secs(10)).await;
    running.settled().await;
    assert_eq!(backup.child_names().await, ["a-000"], "the state of the backup, and nothing later");
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn audit_20_a_conflict_with_an_older_version_detects_a_restore() {
    let (server, backup) = (ahead_of_its_backup().await, TestServer::new().await);
    backup.put_parent("a", 1).await;
    backup.children().create(&PostParams::default(), &child_of("a", 2)).await.unwrap();
    let (faulty, running) = running_on(&server).await;
    faulty.inject("POST", CHILDREN, 4, Fault::Status(503));
    server.put_parent("a", 3).await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    faulty.inject("WATCH", "", 2, Fault::StalledWatch(STALLED));
    faulty.switch_to(&backup);
    let posts = faulty.count("POST", CHILDREN);
    tokio::time::sleep(Duration::from_secs(10)).await;
    running.settled().await;
    assert_eq!(backup.child_names().await, ["a-000"], "the child of the backup is known, and deleted");
    let posts = faulty.count("POST", CHILDREN) - posts;
    assert!(posts <= 8, "{posts} attempts to create an existing child");
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn audit_20_repeated_conflicts_are_retried_with_backoff() {
    let server = TestServer::new().await;
    server.put_parent("a", 1).await;
    let faulty = server.faulty_client();
    faulty.inject("POST", CHILDREN, usize::MAX, Fault::Status(409));
    let (runtime, _) = child_runtime(faulty.client(), server.options());
    let running = start(runtime);
    tokio::time::sleep(Duration::from_mins(10)).await;
    let tries = faulty.count("POST", CHILDREN);
    assert!((15..=28).contains(&tries), "{tries} tries in 10 minutes");
    // Changes of the object shorten the backoff and do not end it.
    for _ in 0..600 {
        server.put_parent("a", 1).await;
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let more = faulty.count("POST", CHILDREN) - tries;
    assert!(more <= 65, "{more} tries in a minute");
    faulty.clear_faults();
    tokio::time::sleep(Duration::from_mins(1)).await;
    assert_eq!(server.child_names().await, ["a-000"]);
    running.stop().await;
}
