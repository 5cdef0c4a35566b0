//! From a request to a response: checks who asks, finds the page, and turns errors into pages.

use std::collections::BTreeMap;

use bytes::Bytes;
use fleet_dashboard::assets;
use fleet_dashboard::failure::{self, Failure};
use fleet_dashboard::shell::{HubProblem, Notice, Section, Shell, bare};
use fleet_dashboard::{Markup, inbox};
use fleet_runtime::Clock;
use http::header::{self, HeaderValue};
use http::request::Parts;
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Limited};
use hyper::body::Incoming;
use percent_encoding::percent_decode_str;

use super::server::{Body, events, full, text};
use super::{Site, access};
use crate::output::{Hinted, NothingChanged};

const HTML: &str = "text/html; charset=utf-8";
/// Maximum size of a form in bytes.
const MAX_FORM: usize = 16 << 10;
/// Maximum length of a name in an address.
const MAX_NAME: usize = 253;

/// A page view of somebody who is signed in.
pub(super) struct Call {
    /// The parts of the path.
    pub(super) path: Vec<String>,
    pub(super) query: BTreeMap<String, String>,
    /// The fields of a form that is to be executed.
    pub(super) form: Option<BTreeMap<String, String>>,
    /// Only the content, without its surroundings.
    pub(super) part: bool,
    /// The token of forms.
    pub(super) token: String,
}

/// What a call results in.
#[derive(Debug)]
pub(super) enum Reply {
    Page {
        section: Section,
        title: String,
        content: Markup,
    },
    /// The fragment of a page that is loaded later.
    Part(Markup),
    /// An action was done; its result is shown on another page.
    Done {
        to: String,
        notice: String,
    },
    Failure(StatusCode, Section, Failure),
}

impl Call {
    /// The namespace of the objects; `Err` if it is no name.
    pub(super) fn namespace(&self) -> Option<&str> {
        self.query.get("ns").map(String::as_str).filter(|one| !one.is_empty())
    }

    /// Whether names in the address may be names of objects; others could leave the path of a request to the hub.
    fn has_plain_names(&self) -> bool {
        let plain = |name: &str| {
            !name.is_empty()
                && name.len() <= MAX_NAME
                && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-.".contains(&byte))
                && !name.starts_with('.')
        };
        self.path.iter().all(|part| plain(part)) && self.namespace().is_none_or(plain)
    }

    pub(super) fn is_set(&self, name: &str) -> bool {
        self.query.get(name).is_some_and(|value| !value.is_empty())
    }

    pub(super) fn value(&self, name: &str) -> &str {
        self.query.get(name).map(String::as_str).unwrap_or_default()
    }

    /// A field of the form.
    pub(super) fn field(&self, name: &str) -> Option<&str> {
        self.form.as_ref()?.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }
}

impl Site {
    pub(super) async fn respond(&self, request: Request<Incoming>) -> Response<Body> {
        let (parts, body) = request.into_parts();
        let header = |name| parts.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
        if !self.access.is_expected_host(header(header::HOST)) {
            let what = "This server does not have that name. Open the link that the dashboard printed.\n";
            return text(StatusCode::MISDIRECTED_REQUEST, "text/plain; charset=utf-8", what);
        }
        let path = parts.uri.path();
        if let Some(name) = path.strip_prefix("/assets/") {
            return asset(name);
        }
        let query = pairs(parts.uri.query().unwrap_or_default().as_bytes());
        if path == "/login" && parts.method == Method::GET {
            return self.login(query.get("code").map(String::as_str).unwrap_or_default(), header(header::COOKIE));
        }
        let Some(token) = self.access.session(header(header::COOKIE)) else {
            self.access.offer_link();
            return page(StatusCode::UNAUTHORIZED, bare("Sign in", failure::signed_out().content()));
        };
        match (&parts.method, path) {
            (&Method::GET, "/events") => events(self.store.changes()),
            (&Method::GET | &Method::HEAD, _) => self.view(&parts, query, token).await,
            (&Method::POST, _) => self.act(&parts, body, query, token).await,
            _ => text(StatusCode::METHOD_NOT_ALLOWED, "text/plain; charset=utf-8", "only GET and POST are allowed\n"),
        }
    }

    fn login(&self, code: &str, cookies: &str) -> Response<Body> {
        match self.access.sign_in(code) {
            Some(cookie) => {
                let mut response = redirect("/");
                if let Ok(value) = HeaderValue::from_str(&cookie) {
                    response.headers_mut().insert(header::SET_COOKIE, value);
                }
                response
            }
            // The link was opened twice in the same browser.
            None if self.access.session(cookies).is_some() => redirect("/"),
            None => {
                self.access.offer_link();
                page(StatusCode::UNAUTHORIZED, bare("Sign in", failure::signed_out().content()))
            }
        }
    }

    async fn view(&self, parts: &Parts, query: BTreeMap<String, String>, token: String) -> Response<Body> {
        let part = parts.headers.contains_key("x-part");
        let call = Call { path: segments(parts.uri.path()), query, form: None, part, token };
        self.answer(&call).await
    }

    async fn act(
        &self,
        parts: &Parts,
        body: Incoming,
        query: BTreeMap<String, String>,
        token: String,
    ) -> Response<Body> {
        let header = |name: &str| parts.headers.get(name).and_then(|value| value.to_str().ok());
        let elsewhere = header("origin").is_some_and(|origin| !self.access.is_own_origin(origin))
            || header("sec-fetch-site").is_some_and(|site| site != "same-origin");
        let form = match Limited::new(body, MAX_FORM).collect().await {
            Ok(body) => pairs(&body.to_bytes()),
            Err(_) => {
                return text(StatusCode::PAYLOAD_TOO_LARGE, "text/plain; charset=utf-8", "the form is too long\n");
            }
        };
        let has_token = form.get("token").is_some_and(|given| access::equal(given, &token));
        let call = Call { path: segments(parts.uri.path()), query, form: Some(form), part: false, token };
        if elsewhere || !has_token {
            return self.show(&call, Reply::Failure(StatusCode::FORBIDDEN, Section::Home, failure::stale_form())).await;
        }
        if self.settings.read_only {
            return self.show(&call, Reply::Failure(StatusCode::FORBIDDEN, Section::Home, failure::read_only())).await;
        }
        self.answer(&call).await
    }

    async fn answer(&self, call: &Call) -> Response<Body> {
        self.store.listed().await;
        let reply = if call.has_plain_names() { self.reply(call).await } else { Ok(no_page()) };
        let reply = reply.unwrap_or_else(|error| failed(&error));
        self.show(call, reply).await
    }

    async fn show(&self, call: &Call, reply: Reply) -> Response<Body> {
        let (status, section, title, content) = match reply {
            Reply::Part(content) => return page(StatusCode::OK, content.into_string()),
            Reply::Done { to, notice } => return self.done(&to, notice),
            Reply::Page { section, title, content } => (StatusCode::OK, section, title, content),
            Reply::Failure(status, _, failure) if call.part => return page(status, failure.content().into_string()),
            Reply::Failure(status, section, failure) => (status, section, failure.title.clone(), failure.content()),
        };
        page(status, self.shell(call).await.page(section, &title, content))
    }

    /// What surrounds a page.
    pub(super) async fn shell(&self, call: &Call) -> Shell {
        let view = self.store.view();
        let problem = |one: &super::store::Problem| HubProblem { what: one.what.clone(), hint: one.hint.clone() };
        Shell {
            now: Clock::Real.now(),
            hub: self.hub.server.clone(),
            user: self.reviews.user().await,
            read_only: self.settings.read_only,
            token: call.token.clone(),
            inbox: inbox::items(&view.fleet).len(),
            notice: self.notice(call.value("notice")).map(|text| Notice { text }),
            problems: view.problems.iter().map(problem).collect(),
        }
    }

    /// Leads to another page, with the result as a notice. The notice is kept here, so that no link can put words on a page.
    fn done(&self, to: &str, notice: String) -> Response<Body> {
        let id = self.keep_notice(notice);
        let sign = if to.contains('?') { '&' } else { '?' };
        redirect(&format!("{to}{sign}notice={id}"))
    }
}

fn segments(path: &str) -> Vec<String> {
    let parts = path.split('/').filter(|part| !part.is_empty());
    parts.map(|part| percent_decode_str(part).decode_utf8_lossy().into_owned()).collect()
}

fn pairs(encoded: &[u8]) -> BTreeMap<String, String> {
    form_urlencoded::parse(encoded).into_owned().collect()
}

fn asset(name: &str) -> Response<Body> {
    match assets::find(name) {
        Some(asset) => text(StatusCode::OK, asset.content_type, Bytes::from_static(asset.content.as_bytes())),
        None => text(StatusCode::NOT_FOUND, "text/plain; charset=utf-8", "404 page not found\n"),
    }
}

fn page(status: StatusCode, content: String) -> Response<Body> {
    text(status, HTML, content)
}

fn redirect(to: &str) -> Response<Body> {
    let mut response = Response::new(full(Bytes::new()));
    *response.status_mut() = StatusCode::SEE_OTHER;
    if let Ok(to) = HeaderValue::from_str(to) {
        response.headers_mut().insert(header::LOCATION, to);
    }
    response
}

/// The reply for an unknown address.
pub(super) fn no_page() -> Reply {
    let failure = Failure::new("There is no such page", "Nothing is at this address.", "").next("/", "Overview");
    Reply::Failure(StatusCode::NOT_FOUND, Section::Home, failure)
}

/// The reply for an error of the functions of the commands.
fn failed(error: &anyhow::Error) -> Reply {
    let nothing_done = error.downcast_ref().map(|NothingChanged(hinted)| hinted);
    let hinted: Option<&Hinted> = nothing_done.or_else(|| error.downcast_ref());
    let hint = hinted.map(|hinted| hinted.hint.clone()).unwrap_or_default();
    let (status, title) = match nothing_done {
        Some(_) => (StatusCode::CONFLICT, "Nothing was changed"),
        None => (StatusCode::BAD_GATEWAY, "This did not work"),
    };
    Reply::Failure(status, Section::Home, Failure::new(title, format!("{error:#}"), hint))
}
