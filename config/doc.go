// Package config reads the lists of MCP servers that other hosts use, and makes
// [mcpvisor.ServerSpec] values from them.
//
// [Load] reads the mcpServers object of Claude Desktop, Claude Code (.mcp.json),
// Cursor and Gemini CLI, and the servers object of VS Code, also below "mcp" in
// its settings. Comments and trailing commas are allowed. At the top of a file may also be
// "journal" ([File].Journal) and "gateway" ([File].Gateway); other keys there
// belong to its host and are skipped. An entry may have keys of mcpvisor
// beside those of its host, so one file serves both:
//
//	{
//	  "mcpServers": {
//	    "fs": {
//	      "command": "npx",
//	      "args": ["-y", "@modelcontextprotocol/server-filesystem", "${HOME}/notes"],
//	      "retry": {"max_attempts": 5, "base": "500ms", "park": "5m"},
//	      "timeouts": {"call": "2m"}
//	    }
//	  }
//	}
//
// # Names
//
// Any text may name an entry. One that cannot name a server, such as
// "microsoft/playwright-mcp", gets a legal name that is derived from it, and a
// warning says which. [Server].Entry keeps the text.
//
// # Values
//
// A duration is a string such as "1.5s", or a number of seconds. A relative cwd or
// envFile begins at the workspace, which is the directory of the file; see
// [WithWorkspace]. A relative command with a slash begins at cwd, by default the
// directory of this process. ~/ at the start of command, cwd and envFile is the home
// directory. null is the same as no key. A command line in command ("npx -y
// some-server") is split, with a warning, unless a program has that name.
//
// Variables are replaced in command, args, cwd, envFile, url, tools, auth, and in
// the values of env and headers:
//
//	${VAR}              the environment variable; a problem if it is not set
//	${VAR:-default}     the default if it is not set, or empty
//	${env:VAR}          the same as ${VAR}
//	${workspaceFolder}  the workspace
//	${workspaceFolderBasename}
//	                    the last part of its path
//	${userHome}         the user's home directory
//	${pathSeparator}, ${/}
//	                    the separator of paths of the system
//	${input:id}         the variable MCPVISOR_INPUT_ID, or what [WithInput]
//	                    answers, or the default of the file's "inputs"
//	${file:path}        the text of a file of at most 64 KiB, without line breaks at
//	                    its end; a relative path begins at the workspace
//	${keyring:service/account}
//	                    an entry of the keyring, by way of [WithKeyring]
//	$${                 a literal ${
//
// A bare $VAR stays as it is. The value of a variable is not expanded again. Values of
// files, of the keyring and of inputs that are passwords become Secrets of the server.
//
// # Several files
//
// [LoadFiles] reads several files as one, for instance those of a user and of a project. An
// entry of a later file replaces that of the same name as a whole. Each server says from
// which file and line it is, and what it replaced.
//
// # Schema
//
// [Schema] is a JSON Schema of these files, for editors. It is made from the same table as
// the list below. A file names it with "$schema": [SchemaURL].
//
// # Problems
//
// A file that cannot be used at all is an error. An entry that cannot be used is
// a [Problem] with file and line, and the other entries are returned. An unknown
// key is a problem too, but only a warning. Errors and problems hold the names of
// variables, never their values.
//
// Each key of an entry is checked, so one reading reports every bad value. What concerns
// the entry as a whole (its transport, the validity of its [mcpvisor.ServerSpec]) is
// checked only if all its values are usable, so correcting them may show further
// problems.
//
// # Concurrency
//
// [Load], [Parse] and the other functions may be called by many goroutines at once. The
// functions of options are called in the goroutine of Load or Parse. A [File] is the
// caller's; it is not safe for changes by several goroutines.
//
// # Keys of an entry
//
// [Keys] returns them for programs. The arrow leads to the field of
// [mcpvisor.ServerSpec] that a key sets. This list is made from the code:
//
//	command → Stdio.Command
//	    (path) The program that is the server. It is looked up in PATH; with a
//	    slash in it, it begins at cwd.
//	args → Stdio.Args
//	    (list of strings) The arguments of the program.
//	env → Stdio.Env
//	    (object of strings) Environment variables of the server. By default the
//	    server gets only some variables of the host, such as PATH and HOME;
//	    inherit_env passes all. Numbers and booleans are taken as written.
//	envFile → Stdio.Env
//	    (path) A file with further variables, one NAME=value per line. env wins
//	    over it.
//	cwd → Stdio.Dir
//	    (path; default the host's) The working directory of the program.
//	inherit_env → Stdio.InheritEnv
//	    (boolean; default false) Passes the host's whole environment to the
//	    server. Also written inheritEnv.
//	keep_daemons → Stdio.KeepDaemons
//	    (boolean; default false) Leaves processes alone that have left the
//	    server's process group, when the server ends. Also written keepDaemons.
//	standby → Standby
//	    (boolean; default false) Keeps a second process of the server started.
//	    It takes over when the first one ends, without a start; calls in the gap
//	    fail at once. It needs retry with max_attempts other than 0. A fleet
//	    refuses it.
//	overlap → Overlap
//	    (boolean; default false) A reload may start the new process while the
//	    old one runs, so that no call waits for it. Without it, the old one ends
//	    first; servers over HTTP and those with standby overlap anyway. It
//	    excludes exclusive.
//	exclusive → Exclusive
//	    (boolean; default false) At most one process of this server may exist
//	    among all hosts of a fleet. It has no effect on a single host, and
//	    excludes standby and overlap.
//	node_labels
//	    (object of strings) The labels that a node of a fleet must have to run
//	    this server. It has no effect on a single host. Also written nodeLabels.
//	url → HTTP.URL
//	    (URL) The endpoint of a server over HTTP. An address with ws:// or
//	    wss:// is that of a WebSocket. Also written serverUrl.
//	httpUrl → HTTP.URL
//	    (URL) The same as url, and wins over it. Gemini CLI writes the endpoint
//	    of Streamable HTTP here, and that of HTTP+SSE below url.
//	messages_url → HTTP.MessagesURL
//	    (URL) Where messages are sent over HTTP+SSE, instead of the address that
//	    the server names; the query of that is kept. For a server behind a proxy
//	    that strips a prefix.
//	headers → HTTP.Headers
//	    (object of strings) Sent with every request to the endpoint's origin, or
//	    with the one that opens a WebSocket. They appear in no log, error or
//	    status.
//	auth → HTTP.Auth
//	    (boolean or object; default false) Authorizes this client by OAuth. true
//	    discovers everything; the object fixes what it names. The user consents
//	    once, by `mcpvisor authorize NAME`. Also written oauth.
//	auth.client_id → HTTP.Auth.ClientID
//	    (string) The id of a client that is registered at the authorization
//	    server. Without it the client registers itself. Also written clientId,
//	    CLIENT_ID.
//	auth.client_secret → HTTP.Auth.ClientSecret
//	    (string) The secret that belongs to client_id, which it needs. Not
//	    together with private_key_file. Also written clientSecret,
//	    CLIENT_SECRET.
//	auth.private_key_file → HTTP.Auth.PrivateKey
//	    (path) A key in PEM that the client signs with instead of a secret: RSA,
//	    P-256 or Ed25519.
//	auth.client_metadata_url → HTTP.Auth.ClientMetadataURL
//	    (URL) Where the client publishes its metadata document.
//	auth.client_name → HTTP.Auth.ClientName
//	    (string; default mcpvisor) The name that the user sees where they
//	    consent.
//	auth.issuer → HTTP.Auth.Issuer
//	    (URL; default the first one that the server names; it is remembered) The
//	    authorization server that client_id belongs to. No other is accepted.
//	auth.account → HTTP.Auth.Account
//	    (string) Tells several logins to the same server apart.
//	auth.scopes → HTTP.Auth.Scopes
//	    (list of strings, or one string with spaces; default those that the
//	    server names) The scopes to ask for, beside those that the server asks
//	    for. Also written scope.
//	auth.redirect_url → HTTP.Auth.RedirectURL
//	    (URL; default http://127.0.0.1 with a free port) Where the authorization
//	    server sends the user's browser back to. Also written redirectUri.
//	auth.callbackPort → HTTP.Auth.RedirectURL
//	    (number) Claude Code's key: 8123 stands for redirect_url
//	    http://localhost:8123/callback.
//	auth.grant → HTTP.Auth.Grant
//	    ("authorization_code" or "client_credentials"; default
//	    "authorization_code") How a token is obtained: the user consents, or the
//	    client acts for itself.
//	auth.assertion_file → HTTP.Auth.AssertionFile
//	    (path) A file with a signed assertion (RFC 7523) that the platform of a
//	    workload keeps fresh. It is read for each token.
//	auth.enterprise → HTTP.Auth.Enterprise
//	    (object) The identity provider of an organization, which decides which
//	    servers the user may use.
//	auth.enterprise.token_endpoint → HTTP.Auth.Enterprise.TokenEndpoint
//	    (URL) The provider's token endpoint.
//	auth.enterprise.client_id → HTTP.Auth.Enterprise.ClientID
//	    (string) The id of this client at the provider.
//	auth.enterprise.client_secret → HTTP.Auth.Enterprise.ClientSecret
//	    (string) The secret that belongs to it.
//	auth.enterprise.id_token_file → HTTP.Auth.Enterprise.IDTokenFile
//	    (path) A file with the ID token of the user's login. It is read for each
//	    token.
//	auth.store → HTTP.Auth.Store
//	    ("keyring", "memory", or path of a directory; default files below the
//	    user's configuration directory) Where tokens are kept.
//	auth.wait → HTTP.Auth.TokenWait
//	    (duration; default 5s) How long a call waits for a token that has to be
//	    fetched first.
//	auth.enabled → HTTP.Auth
//	    (boolean; default true) Gemini CLI's key: false is the same as auth:
//	    false.
//	type → HTTP.SSE
//	    ("stdio", "http", "sse" or "ws"; default inferred from the other keys)
//	    "sse" is the deprecated transport HTTP+SSE; "http" detects it, too. "ws"
//	    is a WebSocket; programs other than mcpvisor need config.WithWebSocket
//	    for it. "local", "remote", "websocket" and spellings of
//	    "streamable-http" are accepted too. Also written transport.
//	disabled
//	    (boolean; default false) Lists the entry and does not start it. Nothing
//	    else in it is checked.
//	enabled
//	    (boolean; default true) false is the same as disabled: true.
//	retry → Policy
//	    (false, "none", a number of attempts, or object; default retry 5×,
//	    500ms doubling, then every 5m0s) What happens after the session ends by
//	    itself. A number changes max_attempts of the default policy. An object
//	    replaces the policy: it parks only if it says so. A fleet never gives a
//	    server up, and refuses what bounds attempts.
//	retry.max_attempts → Policy.MaxAttempts
//	    (number, or "unlimited"; default 5) The retry budget: how many attempts
//	    in a row are made before the server is evicted or parked. 0 means none:
//	    the server is evicted or parked at once.
//	retry.base → Policy.Base
//	    (duration; default 500ms) The delay before the first attempt. Each
//	    further attempt doubles it.
//	retry.max → Policy.Max
//	    (duration; default 30s) The longest delay. It must be at least base.
//	retry.jitter → Policy.Jitter
//	    (number from 0 to 1; default 0) Spreads each delay at random, by this
//	    fraction of it.
//	retry.stable_after → Policy.StableAfter
//	    (duration; default 10s) How long a server must stay ready until its
//	    retry budget is reset.
//	retry.park → Policy.ParkEvery
//	    (duration; default the server is evicted) Parks the server when its
//	    retry budget is spent: it is tried again this often.
//	retry.intensity → Policy.Intensity
//	    (object) Bounds restarts over a window of time: one more spends the
//	    whole retry budget at once. Set both of its keys.
//	retry.intensity.restarts → Policy.Intensity.Restarts
//	    (number; default no bound) The most restarts in the window.
//	retry.intensity.window → Policy.Intensity.Window
//	    (duration) The length of the window.
//	timeouts → Timeouts
//	    (object) The clocks of the server. A negative duration means no bound;
//	    shutdown and drain must be bounded, and one of call and call_total.
//	timeouts.start → Timeouts.Start
//	    (duration; default 1m) Bounds the start of the process, or the connect,
//	    and the negotiation together. npx and the like may have to download
//	    first.
//	timeouts.negotiate → Timeouts.Negotiate
//	    (duration; default 3s) Bounds the wait for an answer to server/discover,
//	    before initialize is tried.
//	timeouts.list → Timeouts.List
//	    (duration; default 30s) Bounds the listing of tools, resources,
//	    templates and prompts together.
//	timeouts.max_list_age → Timeouts.MaxListAge
//	    (duration; default off) The age at which a list is read again if its
//	    server announces no changes. At least 10s.
//	timeouts.call → Timeouts.Call
//	    (duration; default 1m) Bounds how long a call may take without a
//	    progress report. Each report starts it again.
//	timeouts.call_total → Timeouts.CallTotal
//	    (duration; default 10m) Bounds a call as a whole, but not the wait for a
//	    server that is not ready.
//	timeouts.shutdown → Timeouts.Shutdown
//	    (duration; default 2s) Bounds the end of a process: after half of it the
//	    process group gets SIGTERM, after all of it SIGKILL. It cannot be
//	    negative.
//	timeouts.drain → Timeouts.Drain
//	    (duration; default 30s) How long the calls in flight may take when a
//	    reload replaces or removes the server, before it is ended. It cannot be
//	    negative.
//	timeout → Timeouts.Call
//	    (number) Other hosts' key for timeouts.call. A number from 1000 up is
//	    read as milliseconds, a smaller one as seconds, and a warning says
//	    which.
//	limits → Limits
//	    (object) What the server may cost this process.
//	limits.max_message_bytes → Limits.MaxMessageBytes
//	    (number; default 64 MiB) The longest message that is accepted. At most
//	    1073741824 (1 GiB). A longer answer fails its call, if the id is near
//	    one of its ends.
//	limits.max_buffer_bytes → Limits.MaxBufferBytes
//	    (number; default 64 MiB) The most bytes that large messages of the
//	    server hold at one time. Further ones wait, and the timeouts of their
//	    calls keep running.
//	limits.max_elements → Limits.MaxElements
//	    (number; default 1,000,000) The most JSON values in one result. A result
//	    with more fails its call.
//	limits.max_decoded_bytes → Limits.MaxDecodedBytes
//	    (number; default 256 MiB) The most memory that one result takes once it
//	    is decoded, as estimated from its text. A larger one fails its call.
//	limits.max_items → Limits.MaxItems
//	    (number; default 10,000) The most entries of each of the four lists. The
//	    rest is left out, with a warning.
//	limits.max_pages → Limits.MaxPages
//	    (number; default 1,000) The most pages of each list. The rest is left
//	    out, with a warning.
//	limits.max_catalog_bytes → Limits.MaxCatalogBytes
//	    (number; default 256 MiB) The most bytes of all four lists together. The
//	    rest is left out, with a warning.
//	limits.max_in_flight → Limits.MaxInFlight
//	    (number; default 1,024) The most calls in flight. Further ones wait in a
//	    queue.
//	limits.max_queued → Limits.MaxQueued
//	    (number; default 1,024) The most calls in that queue. Further ones fail
//	    at once. 0 means no queue. In a Go program, 0 in Limits.MaxQueued means
//	    the default.
//	limits.max_stderr_lines → Limits.MaxStderrLines
//	    (number; default 30) How many lines of the server's stderr are kept for
//	    errors and reports. 0 means the default.
//	probe → Probe
//	    (false or object) How a server that is silent is asked whether it is
//	    still alive. false never asks.
//	probe.interval → Probe.Interval
//	    (duration; default 30s) The longest silence of the server before it is
//	    asked. A negative duration switches probes off.
//	probe.timeout → Probe.Timeout
//	    (duration; default 10s) Bounds the wait for the answer.
//	probe.failures → Probe.Failures
//	    (number; default 3) How many probes in a row must fail before the
//	    session is ended.
//	tools → Tools
//	    (list of patterns, or object; default all tools) The tools that are
//	    offered. In a pattern, * stands for any text and ? for one character. An
//	    empty list hides every tool. {"NAME": false} and {"NAME": {"enabled":
//	    false}} hide one tool.
//	tools.allow → Tools.Allow
//	    (list of patterns; default all tools) Tools that are offered.
//	tools.deny → Tools.Deny
//	    (list of patterns) Tools that are hidden. It wins over allow.
//	enabledTools → Tools.Allow
//	    (list of patterns; default all tools) Other hosts' key for tools. Where
//	    several keys allow tools, only those are offered that all of them allow.
//	    Also written includeTools.
//	disabledTools → Tools.Deny
//	    (list of patterns) Tools that are hidden. It wins over keys that allow
//	    tools. Also written excludeTools.
//	autoApprove
//	    (any) Other hosts' list of tools that they call without asking. It has
//	    no effect, because mcpvisor never asks before a call. A warning says so.
//	    Also written alwaysAllow.
//	on_down
//	    ("keep", "withdraw", or duration; default that of the gateway) What
//	    happens to the tools, resources and prompts of this server in the lists
//	    of a gateway (run --mcp, stdio) while it is down: see on_down of
//	    gateway. Also written onDown.
//	share
//	    ("shared" or "client"; default "shared") For how many clients of a
//	    gateway (run --mcp, stdio) one process of this server runs: for all, or
//	    for one, so that each client has a process of its own. It is for servers
//	    that keep something for their client, such as an open page. A fleet
//	    refuses "client".
//	era → Era
//	    ("auto", "legacy" or "modern"; default "auto") Fixes the generation of
//	    the protocol: legacy is 2024-11-05 to 2025-11-25, modern is 2026-07-28
//	    and newer.
//
// This package is large because a third of it is the tables of keys and this comment.
package config
