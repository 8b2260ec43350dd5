//! A small WebDriver client over plain HTTP: enough to open a page, act on it and read what
//! happened.
#![allow(clippy::print_stderr, reason = "a skipped test says so")]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::{Value as Json, json};

/// The arrow keys, as WebDriver writes them.
pub(crate) const LEFT: &str = "\u{e012}";
pub(crate) const UP: &str = "\u{e013}";

/// A headless Chromium with its driver; both end with this value.
pub(crate) struct Browser {
    driver: Child,
    port: u16,
    session: String,
}

impl Browser {
    /// `None`, with a message, where Chromium or its driver is not installed; a failure there when
    /// `CI` is set.
    pub(crate) fn start() -> Option<Self> {
        let driver = Command::new("chromedriver")
            .arg("--port=0")
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn();
        let Ok(mut driver) = driver else {
            assert!(
                std::env::var_os("CI").is_none(),
                "chromedriver is not installed; apt-get install chromium chromium-driver"
            );
            eprintln!("skipped: chromedriver is not installed");
            return None;
        };
        let mut lines = BufReader::new(driver.stdout.take().unwrap()).lines();
        let port = lines
            .find_map(|line| {
                line.unwrap()
                    .split("successfully on port ")
                    .nth(1)?
                    .trim_end_matches('.')
                    .parse()
                    .ok()
            })
            .expect("chromedriver names its port");
        // Read on, or the driver stops when the pipe is full.
        std::thread::spawn(move || lines.for_each(drop));
        let mut browser = Self { driver, port, session: String::new() };
        let capabilities = json!({ "capabilities": { "alwaysMatch": {
            "goog:chromeOptions": { "args": [
                "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--window-size=1000,1100"
            ] },
            "goog:loggingPrefs": { "browser": "ALL", "performance": "ALL" },
        } } });
        let answer = browser.call("POST", "/session", &capabilities);
        browser.session = answer["sessionId"].as_str().expect("a session").to_string();
        Some(browser)
    }

    /// One request on a connection of its own, and the answer.
    fn request(&self, method: &str, path: &str, body: &Json) -> std::io::Result<Json> {
        let body = if method == "POST" { body.to_string() } else { String::new() };
        let mut stream = TcpStream::connect(("127.0.0.1", self.port))?;
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
            self.port,
            body.len()
        )?;
        let mut reader = BufReader::new(stream);
        let mut length = 0;
        loop {
            let mut line = String::new();
            reader.read_line(&mut line)?;
            if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().map_err(std::io::Error::other)?;
            }
            if line.trim().is_empty() {
                break;
            }
        }
        let mut answer = vec![0; length];
        reader.read_exact(&mut answer)?;
        Ok(serde_json::from_slice(&answer)?)
    }

    /// The `value` of an answer, which must not be an error.
    fn call(&self, method: &str, path: &str, body: &Json) -> Json {
        let answer = self.request(method, path, body).unwrap();
        assert!(answer["value"]["error"].is_null(), "{method} {path}: {answer}");
        answer["value"].clone()
    }

    fn post(&self, path: &str, body: &Json) -> Json {
        self.call("POST", &format!("/session/{}{path}", self.session), body)
    }

    /// Opens a file and waits until its view has been drawn.
    pub(crate) fn open(&self, path: &Path) {
        self.post("/url", &json!({ "url": format!("file://{}", path.display()) }));
        self.wait("return document.documentElement.dataset.readyMs !== undefined");
    }

    fn wait(&self, script: &str) {
        for _ in 0..200 {
            if self.run(script) == json!(true) {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(25));
        }
        panic!("never true: {script}");
    }

    /// What a script returns.
    pub(crate) fn run(&self, script: &str) -> Json {
        self.post("/execute/sync", &json!({ "script": script, "args": [] }))
    }

    fn element(&self, id: &str) -> Json {
        self.post("/element", &json!({ "using": "css selector", "value": format!("#{id}") }))
    }

    /// Two frames, so that what was asked for has been drawn.
    fn settle(&self) {
        self.post(
            "/execute/async",
            &json!({ "script": "requestAnimationFrame(() => requestAnimationFrame(arguments[0]))", "args": [] }),
        );
    }

    fn pointer(&self, id: &str, actions: impl Fn(&Json) -> Json) {
        self.run(&format!("document.getElementById('{id}').scrollIntoView({{block: 'center'}})"));
        let element = self.element(id);
        let pointer = json!({ "type": "pointer", "id": "mouse", "actions": actions(&element) });
        self.post("/actions", &json!({ "actions": [pointer] }));
        self.settle();
    }

    /// Moves the pointer to a place relative to the middle of an element.
    pub(crate) fn hover(&self, id: &str, [x, y]: [i32; 2]) {
        self.pointer(id, |origin| {
            json!([{ "type": "pointerMove", "duration": 0, "origin": origin, "x": x, "y": y }])
        });
    }

    /// Drags from one place to another, both relative to the middle of an element.
    pub(crate) fn drag(&self, id: &str, from: [i32; 2], to: [i32; 2]) {
        let step = |origin: &Json, [x, y]: [i32; 2], duration: u32| json!({ "type": "pointerMove", "duration": duration, "origin": origin, "x": x, "y": y });
        self.pointer(id, |origin| {
            json!([
                step(origin, from, 0),
                { "type": "pointerDown", "button": 0 },
                step(origin, to, 100),
                { "type": "pointerUp", "button": 0 },
            ])
        });
    }

    /// Types a key into an element.
    pub(crate) fn press(&self, id: &str, key: &str) {
        let element = self.element(id);
        let reference = element.as_object().unwrap().values().next().unwrap().as_str().unwrap();
        self.post(&format!("/element/{reference}/value"), &json!({ "text": key }));
        self.settle();
    }

    /// A narrow touch screen, in the dark scheme.
    pub(crate) fn emulate_phone_in_the_dark(&self) {
        let set = |command: &str, params: Json| {
            self.post("/goog/cdp/execute", &json!({ "cmd": command, "params": params }))
        };
        set(
            "Emulation.setDeviceMetricsOverride",
            json!({ "width": 390, "height": 844, "deviceScaleFactor": 2, "mobile": true }),
        );
        let feature = json!({ "name": "prefers-color-scheme", "value": "dark" });
        set("Emulation.setEmulatedMedia", json!({ "features": [feature] }));
    }

    fn log(&self, kind: &str) -> Vec<Json> {
        self.post("/se/log", &json!({ "type": kind })).as_array().unwrap().clone()
    }

    /// Whatever the console holds: a report should write nothing there.
    pub(crate) fn errors(&self) -> Vec<String> {
        self.log("browser").iter().map(Json::to_string).collect()
    }

    /// Addresses that were asked for, besides the file itself and data that it carries.
    pub(crate) fn requests_other_than(&self, path: &Path) -> Vec<String> {
        let own = format!("file://{}", path.display());
        let requested = self.log("performance").into_iter().filter_map(|entry| {
            let message: Json = serde_json::from_str(entry["message"].as_str()?).ok()?;
            let message = &message["message"];
            (message["method"] == "Network.requestWillBeSent")
                .then(|| message["params"]["request"]["url"].as_str().unwrap_or("").to_string())
        });
        let mut seen: Vec<String> = requested.collect();
        assert!(seen.contains(&own), "the log of requests misses the page itself: {seen:?}");
        seen.retain(|url| *url != own && !url.starts_with("data:"));
        seen
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // Ends the browser; also after a failure, where nothing more may panic.
        if !self.session.is_empty() {
            let _ = self.request("DELETE", &format!("/session/{}", self.session), &Json::Null);
        }
        let _ = self.driver.kill();
        let _ = self.driver.wait();
    }
}
