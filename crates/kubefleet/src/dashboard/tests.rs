//! The pages over HTTP, of a fleet in this process: the story of the demo by links and forms, and who is refused.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use fleet_hub::HubOptions;
use fleet_sim::agents::immediate_hub_options;
use fleet_sim::workloads::Behaviours;
use http::Method;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::{Dashboard, Settings};
use crate::cli::connection::HubFlags;
use crate::demo::objects;
use crate::up::blueprint::Blueprint;
use crate::up::fleet::{Fleet, HUB};

/// Longest time that a state may take to appear.
const TIMEOUT: Duration = Duration::from_mins(2);
const API: &str = "/apis/placement.kubernetes-fleet.io/v1beta1";
/// A text that tries to become markup.
const HOSTILE: &str = "\"'><script>alert(1)</script>\u{202e}";

/// A response of a dashboard.
#[derive(Debug)]
struct Page {
    status: u16,
    head: String,
    body: String,
}

impl Page {
    fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
    }

    #[track_caller]
    fn has(&self, texts: &[&str]) -> &Self {
        for text in texts {
            assert!(self.body.contains(text), "{text:?} is not on the page:\n{}\n{}", self.head, self.body);
        }
        self
    }
}

/// A browser: an address and a cookie.
#[derive(Clone)]
struct Browser {
    address: SocketAddr,
    cookie: String,
    /// The token of its forms.
    token: String,
}

impl Browser {
    async fn send(&self, method: &str, path: &str, headers: &str, body: &str) -> Page {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        let host = if headers.contains("host:") { String::new() } else { format!("host: {}\r\n", self.address) };
        let request = format!(
            "{method} {path} HTTP/1.1\r\n{host}connection: close\r\ncookie: {}\r\n{headers}content-length: {}\r\n\r\n{body}",
            self.cookie,
            body.len()
        );
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).await.unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        Page { status, head: head.to_owned(), body: body.to_owned() }
    }

    async fn get(&self, path: &str) -> Page {
        self.send("GET", path, "", "").await
    }

    /// Opens the link of a dashboard.
    async fn sign_in(link: &str) -> Self {
        let (address, path) = link.strip_prefix("http://").unwrap().split_once('/').unwrap();
        let mut browser = Self { address: address.parse().unwrap(), cookie: String::new(), token: String::new() };
        let page = browser.get(&format!("/{path}")).await;
        assert_eq!((page.status, page.header("location")), (303, Some("/")));
        browser.cookie = page.header("set-cookie").unwrap().split(';').next().unwrap().to_owned();
        browser
    }

    /// Sends the form of a confirmation as it is on its page; returns the page that it leads to.
    async fn confirm(&self, path: &str) -> Page {
        let page = self.get(path).await;
        assert_eq!(page.status, 200, "{}", page.body);
        let form = page.body.split("method=\"post\"").nth(1).expect("a form").split("</form>").next().unwrap();
        let fields = form.split("type=\"hidden\" name=\"").skip(1).map(|field| {
            let (name, rest) = field.split_once("\" value=\"").unwrap();
            format!("{name}={}", rest.split('"').next().unwrap())
        });
        let done = self.submit(path, &fields.collect::<Vec<_>>().join("&")).await;
        assert_eq!(done.status, 303, "{}", done.body);
        self.get(done.header("location").unwrap()).await
    }

    async fn submit(&self, path: &str, form: &str) -> Page {
        let headers = "content-type: application/x-www-form-urlencoded\r\n";
        self.send("POST", path, headers, form).await
    }

    /// Waits until a page has a text.
    async fn until(&self, path: &str, text: &str) -> Page {
        let begun = Instant::now();
        let mut changes = Changes::of(self).await;
        loop {
            let page = self.get(path).await;
            if page.body.contains(text) {
                return page;
            }
            assert!(begun.elapsed() < TIMEOUT, "{text:?} does not appear on {path}:\n{}", page.body);
            // Times pass without events.
            let _ = tokio::time::timeout(Duration::from_secs(1), changes.next()).await;
        }
    }
}

/// The stream of changes of a tab.
struct Changes(BufReader<TcpStream>);

impl Changes {
    async fn of(browser: &Browser) -> Self {
        let mut stream = TcpStream::connect(browser.address).await.unwrap();
        let request =
            format!("GET /events HTTP/1.1\r\nhost: {}\r\ncookie: {}\r\n\r\n", browser.address, browser.cookie);
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut changes = Self(BufReader::new(stream));
        while !changes.line().await.contains("connected") {}
        changes
    }

    async fn line(&mut self) -> String {
        let mut line = String::new();
        assert!(self.0.read_line(&mut line).await.unwrap() > 0, "the stream ended");
        line
    }

    async fn next(&mut self) {
        while !self.line().await.starts_with("event: changed") {}
    }
}

/// A fleet with its kubeconfig.
struct World {
    fleet: Fleet,
    _directory: tempfile::TempDir,
    kubeconfig: PathBuf,
}

impl World {
    async fn start(members: Option<u16>) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let mut fleet = Fleet::open("127.0.0.1:0".parse().unwrap(), None).await.unwrap();
        if let Some(members) = members {
            let behaviours = Behaviours::parse(json!([{"readyAfter": "300ms", "jitter": "100ms"}])).unwrap();
            let options = HubOptions { stuck_after: Duration::from_secs(2), ..immediate_hub_options() };
            fleet.start(Blueprint::usual(members, behaviours).unwrap(), &options).await.unwrap();
            fleet.joined(|_| {}).await.unwrap();
        }
        let kubeconfig = directory.path().join("kubeconfig");
        std::fs::write(&kubeconfig, fleet.kubeconfig()).unwrap();
        Self { fleet, _directory: directory, kubeconfig }
    }

    fn settings(&self) -> Settings {
        let flags =
            HubFlags { namespace: None, context: Some(HUB.to_owned()), kubeconfig: Some(self.kubeconfig.clone()) };
        Settings { flags, ..Settings::default() }
    }

    /// A dashboard and a browser that is signed in.
    async fn browser(&self, settings: Settings) -> (Browser, JoinHandle<()>) {
        let dashboard = Dashboard::open("127.0.0.1:0".parse().unwrap(), settings).await.unwrap();
        let (link, site) = (dashboard.link(), dashboard.site.clone());
        let serving = tokio::spawn(dashboard.serve());
        let mut browser = Browser::sign_in(&link).await;
        browser.token = site.access.session(&browser.cookie).unwrap();
        (browser, serving)
    }

    async fn request(&self, method: Method, path: &str, body: &Value) -> Value {
        let content_type = if method == Method::PATCH { "application/merge-patch+json" } else { "application/json" };
        let request = http::Request::builder().method(method).uri(path).header("content-type", content_type);
        let request = request.body(body.to_string().into_bytes()).unwrap();
        self.fleet.client(HUB).request(request).await.unwrap()
    }

    /// A kubeconfig of a user without any right.
    async fn kubeconfig_of_a_stranger(&self) -> PathBuf {
        let accounts = "/api/v1/namespaces/default/serviceaccounts";
        self.request(Method::POST, accounts, &json!({"metadata": {"name": "stranger"}})).await;
        let token = self.request(Method::POST, &format!("{accounts}/stranger/token"), &json!({"spec": {}})).await;
        let text = std::fs::read_to_string(&self.kubeconfig).unwrap();
        let parsed: Value = serde_saphyr::from_str(&text).unwrap();
        let own = parsed["users"][0]["user"]["token"].as_str().unwrap();
        let path = self.kubeconfig.with_file_name("stranger");
        std::fs::write(&path, text.replace(own, token["status"]["token"].as_str().unwrap())).unwrap();
        path
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_demo_can_be_completed_by_links_and_forms() {
    let world = World::start(Some(3)).await;
    let hub = world.fleet.client(HUB);
    let (browser, serving) = world.browser(world.settings()).await;
    browser.until("/clusters", "3 clusters").await.has(&["member1", "healthy"]);

    objects::deploy(&hub, 3).await.unwrap();
    browser.until("/placements", "up to runs").await.has(&["/placements/web"]);
    browser.until("/inbox", "Placement web needs a run").await;
    let plan = "/placements/web/plan?strategy=at-once";
    browser.get(plan).await.has(&[
        "Stage everywhere",
        "current resources on the hub",
        "Start the run",
        "kubernetes-admin",
    ]);
    browser.confirm(plan).await.has(&["run web-1 started", "Strategy"]);
    browser.until("/runs/web-1", "3 of 3 clusters").await.has(&["Timeline"]);

    let member = world.fleet.client(objects::FAILING);
    let nodes = objects::nodes(&member).await.unwrap();
    objects::cordon(&member, &nodes, true).await.unwrap();
    objects::set_image(&hub, "web:2").await.unwrap();
    browser.confirm("/placements/web/plan?strategy=careful").await.has(&["run web-2 started"]);
    let run = browser.until("/runs/web-2", "An approval of stage").await;
    run.has(&["/approvals/web-2-after-staging", "Roll back", "Stop", "Review and approve"]);
    browser.until("/inbox", "Approve stage staging of run web-2").await;
    browser.get("/").await.has(&["Approve stage staging of run web-2", "web-2", "member3"]);

    // A change of the run reaches an open tab soon.
    let stopping = "/runs/web-2/stop";
    browser.get(stopping).await.has(&["Stop run web-2?", "2 clusters will not start"]);
    browser.confirm(stopping).await.has(&["run web-2 is stopping"]);
    browser.until("/runs/web-2", "Resume").await;
    let again = browser.submit(stopping, &format!("token={}", browser.token)).await;
    assert_eq!(again.status, 409);
    again.has(&["Nothing was changed", "was already asked to stop"]);
    browser.confirm("/runs/web-2/resume").await.has(&["run web-2 resumed"]);

    let approval = "/approvals/web-2-after-staging";
    browser.until("/runs/web-2", "An approval of stage").await;
    browser.get(approval).await.has(&["Approve stage staging?", "stage <strong>canary</strong>", "web:1", "web:2"]);
    browser.confirm(approval).await.has(&["approved successfully"]);
    // The form of a second person, who opened the page before.
    let second = browser.submit(approval, &format!("token={}", browser.token)).await;
    browser.get(second.header("location").unwrap()).await.has(&["was already approved"]);
    browser.until(approval, "Already approved").await;
    let late = browser.get(approval).await;
    assert_eq!(late.status, 409);
    late.has(&["Already approved"]);

    browser.until("/runs/web-2", " is stuck").await;
    browser.until("/inbox", "Cluster member3 is stuck in run web-2").await;
    browser.get("/runs/web-2").await.has(&["data-load=\"/runs/web-2/diagnosis\""]);
    browser.until("/runs/web-2/diagnosis", "no node of member3 can run its Pods").await.has(&[
        "Evidence",
        "kubectl",
        "data-copy",
    ]);
    let part = browser.send("GET", "/runs/web-2/diagnosis", "x-part: yes\r\n", "").await;
    assert!(part.body.contains("no node of member3") && !part.body.contains("<html"), "{}", part.body);
    browser.get("/diagnosis").await.has(&["member3"]);
    objects::cordon(&member, &nodes, false).await.unwrap();
    browser.until("/runs/web-2", "3 of 3 clusters").await;

    browser.get("/placements/web").await.has(&["Version 1", "Version 0", "web-2", "1 resource changed", "web:2"]);
    browser.get("/clusters?group=version:web").await.has(&["version 1"]);
    browser.get("/clusters/member3").await.has(&["Placements here", "/placements/web", "heartbeat"]);
    browser.get("/clusters/member3/diagnosis").await.has(&["member3"]);
    let back = "/placements/web/rollback";
    browser.get(back).await.has(&["Roll web back to version 0?", "3 clusters"]);
    let stale = browser.submit(back, &format!("token={}&from=7&to=0&strategy=careful", browser.token)).await;
    assert_eq!(stale.status, 409);
    stale.has(&["has another version than when the page was shown"]);
    browser.confirm(back).await.has(&["run web-3 started"]);

    // Deleted while it is viewed.
    world.request(Method::DELETE, &format!("{API}/clusterstagedupdateruns/web-1"), &json!({})).await;
    let gone = browser.until("/runs/web-1", "The run web-1 was deleted").await;
    assert_eq!(gone.status, 404);
    gone.has(&["Did you mean", "/runs/web-2"]);

    serving.abort();
    world.fleet.end().await;
}

async fn create_placement(world: &World, name: &str) {
    let placement = json!({
        "apiVersion": "placement.kubernetes-fleet.io/v1beta1", "kind": "ClusterResourcePlacement",
        "metadata": {"name": name},
        "spec": {"resourceSelectors": [{"group": "", "version": "v1", "kind": "Namespace", "name": "shop"}]},
    });
    world.request(Method::POST, &format!("{API}/clusterresourceplacements"), &placement).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_require_a_session_and_show_errors() {
    let world = World::start(None).await;
    let (browser, serving) = world.browser(world.settings()).await;
    browser.until("/placements", "No placements yet").await;

    strangers_are_refused(&browser).await;
    forms_without_a_token_are_refused(&browser).await;

    // A change is visible within half a second, in a tab that follows changes.
    let mut changes = Changes::of(&browser).await;
    create_placement(&world, "web").await;
    let begun = Instant::now();
    changes.next().await;
    let page = browser.get("/placements").await;
    let elapsed = begun.elapsed();
    page.has(&["/placements/web"]);
    assert!(elapsed < Duration::from_millis(500), "the change was visible after {elapsed:?}");

    hostile_texts_stay_texts(&world, &browser).await;

    let unknown = browser.get("/placements/wep").await;
    assert_eq!(unknown.status, 404);
    unknown.has(&["There is no placement wep", "Did you mean", "/placements/web"]);
    for path in ["/nothing", "/runs/..%2f..%2fapi", "/runs/a%20b", "/runs/web?ns=..%2F..", "/placements/%3Cscript%3E"] {
        let page = browser.get(path).await;
        assert_eq!(page.status, 404, "{path}");
        assert!(!page.body.contains("<script>"), "{path}");
    }
    serving.abort();

    // Read-only.
    let settings = Settings { read_only: true, ..world.settings() };
    let (reader, serving) = world.browser(settings).await;
    reader.until("/placements", "/placements/web").await.has(&["read-only"]);
    let plan = reader.get("/placements/web/plan?strategy=x").await;
    assert!(!plan.body.contains("method=\"post\""), "{}", plan.body);
    let refused = reader.submit("/placements/web/plan", &format!("token={}&strategy=x", reader.token)).await;
    assert_eq!(refused.status, 403);
    refused.has(&["This dashboard is read-only"]);
    serving.abort();

    // Without rights on the hub.
    let mut settings = world.settings();
    settings.flags.kubeconfig = Some(world.kubeconfig_of_a_stranger().await);
    let (stranger, serving) = world.browser(settings).await;
    stranger.until("/", "has no permission to list").await.has(&["serviceaccount:default:stranger"]);
    serving.abort();

    // The hub ends while a page is open.
    let (last, serving) = world.browser(world.settings()).await;
    last.until("/placements", "/placements/web").await;
    world.fleet.end().await;
    last.until("/placements", "cannot connect to the hub").await.has(&["/placements/web"]);
    serving.abort();
}

async fn strangers_are_refused(browser: &Browser) {
    let nobody = Browser { cookie: String::new(), ..browser.clone() };
    for path in ["/", "/runs", "/events", "/login?code=", "/login?code=x"] {
        let page = nobody.get(path).await;
        assert_eq!(page.status, 401, "{path}");
        assert!(!page.body.contains("<nav"), "{path}");
    }
    assert_eq!(nobody.submit("/runs/web/stop", "").await.status, 401);
    let forged = Browser { cookie: format!("{}x", browser.cookie), ..browser.clone() };
    assert_eq!(forged.get("/").await.status, 401);
    for host in ["evil.example", "evil.example:80", "localhost"] {
        assert_eq!(browser.send("GET", "/", &format!("host: {host}\r\n"), "").await.status, 421, "{host}");
    }
    let page = browser.get("/").await;
    assert_eq!(page.status, 200);
    let policy = page.header("content-security-policy").unwrap();
    assert!(
        policy.starts_with("default-src 'none'; script-src 'self'; style-src 'self'") && !policy.contains("unsafe"),
        "{policy}"
    );
    assert_eq!(page.header("x-content-type-options"), Some("nosniff"));
    assert_eq!(page.header("cache-control"), Some("no-store"));
    for (path, kind) in
        [("dashboard.css", "text/css"), ("dashboard.js", "text/javascript"), ("icon.svg", "image/svg+xml")]
    {
        let asset = nobody.get(&format!("/assets/{path}")).await;
        assert!(asset.status == 200 && asset.header("content-type").unwrap().starts_with(kind), "{path}");
    }
    assert_eq!(browser.get("/assets/../Cargo.toml").await.status, 404);
}

async fn forms_without_a_token_are_refused(browser: &Browser) {
    let page = browser.get("/placements/web/plan").await;
    assert_eq!(page.status, 404);
    for form in ["", "token=", "token=x"] {
        let page = browser.submit("/runs/web/stop", form).await;
        assert_eq!(page.status, 403, "{form:?}");
        page.has(&["This tab is out of date", "Nothing was changed"]);
    }
    for header in ["origin: https://evil.example\r\n", "origin: null\r\n", "sec-fetch-site: cross-site\r\n"] {
        let form = format!("token={}", browser.token);
        assert_eq!(browser.send("POST", "/runs/web/stop", header, &form).await.status, 403, "{header}");
    }
    assert_eq!(browser.submit("/runs/web/stop", &"x".repeat(20 << 10)).await.status, 413);
    assert_eq!(browser.send("PUT", "/", "", "").await.status, 405);
}

async fn hostile_texts_stay_texts(world: &World, browser: &Browser) {
    let condition = json!({
        "type": "ClusterResourcePlacementScheduled", "status": "False", "reason": "x", "message": HOSTILE,
        "lastTransitionTime": "2026-01-01T00:00:00Z", "observedGeneration": 1,
    });
    let status = json!({"status": {"conditions": [condition]}});
    world.request(Method::PATCH, &format!("{API}/clusterresourceplacements/web/status"), &status).await;
    let member = json!({
        "apiVersion": "cluster.kubernetes-fleet.io/v1beta1", "kind": "MemberCluster", "metadata": {"name": "east"},
        "spec": {"identity": {"kind": "User", "name": "east"}},
    });
    let members = "/apis/cluster.kubernetes-fleet.io/v1beta1/memberclusters";
    world.request(Method::POST, members, &member).await;
    let properties =
        json!({"status": {"properties": {"x/y": {"value": HOSTILE, "observationTime": "2026-01-01T00:00:00Z"}}}});
    world.request(Method::PATCH, &format!("{members}/east/status"), &properties).await;
    for path in ["/placements", "/placements/web", "/inbox", "/clusters/east"] {
        let page = browser.until(path, "&lt;script&gt;alert(1)").await;
        assert!(!page.body.contains("<script>alert") && !page.body.contains('\u{202e}'), "{path}");
    }
}
