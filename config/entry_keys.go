package config

import (
	"time"

	"github.com/tailscale/hujson"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/gateway/settings"
	"github.com/mcpvisor/mcpvisor/internal/configkeys"
)

// entryRows are the keys of an entry.
var entryRows = append([]row{
	keyRow((*entry).readCommand, configkeys.Key{
		Name: "command", Type: "path, or list of strings", Field: "Stdio.Command", Example: `"npx"`,
		Meaning: "The program that is the server. It is looked up in PATH; with a slash in it, it begins at cwd. A list has the program and the arguments before args, as OpenCode writes it."}),
	listRow(func(e *entry) *[]string { return &e.stdio.Args }, configkeys.Key{
		Name: "args", Field: "Stdio.Args", Example: `["-y", "some-server"]`,
		Meaning: "The arguments of the program."}),
	keyRow(func(e *entry, v *hujson.Value) { e.stdio.Env = mergeEnv(e.stdio.Env, e.readMap(v)) }, configkeys.Key{
		Name: "env", Aliases: []string{"environment"}, Type: "object of strings", Field: "Stdio.Env", Example: `{"API_KEY": "${API_KEY}"}`,
		Meaning: "Environment variables of the server. By default the server gets only some variables of the host, such as PATH and HOME; inherit_env passes all. Numbers and booleans are taken as written."}),
	keyRow((*entry).readEnvFile, configkeys.Key{
		Name: "envFile", Type: "path", Field: "Stdio.Env", Example: `".env"`,
		Meaning: "A file with further variables, one NAME=value per line. env wins over it."}),
	pathRow(func(e *entry) *string { return &e.stdio.Dir }, configkeys.Key{
		Name: "cwd", Default: "the host's", Field: "Stdio.Dir", Example: `"server"`,
		Meaning: "The working directory of the program."}),
	boolRow(func(e *entry) *bool { return &e.stdio.InheritEnv }, configkeys.Key{
		Name: "inherit_env", Aliases: []string{"inheritEnv"}, Default: "false", Field: "Stdio.InheritEnv", Example: `true`,
		Meaning: "Passes the host's whole environment to the server."}),
	boolRow(func(e *entry) *bool { return &e.stdio.KeepDaemons }, configkeys.Key{
		Name: "keep_daemons", Aliases: []string{"keepDaemons"}, Default: "false", Field: "Stdio.KeepDaemons", Example: `true`,
		Meaning: "Leaves processes alone that have left the server's process group, when the server ends."}),
	boolRow(func(e *entry) *bool { return &e.spec.Standby }, configkeys.Key{
		Name: "standby", Default: "false", Field: "Standby", Example: `true`,
		Meaning: "Keeps a second process of the server started. It takes over when the first one ends, without a start; calls in the gap fail at once. It needs retry with max_attempts other than 0. A fleet refuses it."}),
	boolRow(func(e *entry) *bool { return &e.spec.Overlap }, configkeys.Key{
		Name: "overlap", Default: "false", Field: "Overlap", Example: `true`,
		Meaning: "A reload may start the new process while the old one runs, so that no call waits for it. Without it, the old one ends first; servers over HTTP and those with standby overlap anyway. It excludes exclusive."}),
	boolRow(func(e *entry) *bool { return &e.spec.Exclusive }, configkeys.Key{
		Name: "exclusive", Default: "false", Field: "Exclusive", Example: `true`,
		Meaning: "At most one process of this server may exist among all hosts of a fleet. It has no effect on a single host, and excludes standby and overlap."}),
	keyRow((*entry).readAfter, configkeys.Key{
		Name: "after", Type: "list of strings", Field: "After", Example: `["db"]`,
		Meaning: "Servers and groups that must be ready before this server starts. It waits for them, and ends before they do."}),
	boolRow(func(e *entry) *bool { return &e.spec.Transient }, configkeys.Key{
		Name: "transient", Default: "false", Field: "Transient", Example: `true`,
		Meaning: "The program may exit with 0 when its work is done, which is no failure. It is listed, and starts again when it is wanted."}),
	orDefaultRow(func(e *entry) *mcpvisor.StartMode { return &e.spec.Start }, configkeys.Key{
		Name: "start", Default: `"eager"`, Field: "Start", Example: `"lazy"`,
		Meaning: "When the server starts: at once, or when something wants it, such as a call or a server that comes after it. A lazy server whose lists are not known is started once for them."}, "eager", mcpvisor.StartLazy),
	durationRow(func(e *entry) *time.Duration { return &e.spec.IdleStop }, configkeys.Key{
		Name: "idle_stop", Default: "never", Field: "IdleStop", Example: `"10m"`,
		Meaning: "Ends a server that nothing has used for that long. It is listed, and starts again when it is wanted. At least 1s; 0 means never."}),
	mapRow(func(e *entry) *map[string]string { return &e.nodeLabels }, configkeys.Key{
		Name: "node_labels", Aliases: []string{"nodeLabels"}, Example: `{"zone": "north"}`,
		Meaning: "The labels that a node of a fleet must have to run this server. It has no effect on a single host."}),
	textRow(func(e *entry) *string { return &e.http.URL }, configkeys.Key{
		Name: "url", Aliases: []string{"serverUrl"}, Type: "URL", Field: "HTTP.URL", Example: `"https://example.com/mcp"`,
		Meaning: "The endpoint of a server over HTTP. An address with ws:// or wss:// is that of a WebSocket. unix:///run/mcp.sock stands for the socket /run/mcp.sock and http://localhost/mcp."}),
	textRow(func(e *entry) *string { return &e.httpURL }, configkeys.Key{
		Name: "httpUrl", Type: "URL", Field: "HTTP.URL", Example: `"https://example.com/mcp"`,
		Meaning: "The same as url, and wins over it. Gemini CLI writes the endpoint of Streamable HTTP here, and that of HTTP+SSE below url."}),
	textRow(func(e *entry) *string { return &e.http.MessagesURL }, configkeys.Key{
		Name: "messages_url", Type: "URL", Field: "HTTP.MessagesURL", Example: `"/prefix/messages"`,
		Meaning: "Where messages are sent over HTTP+SSE, instead of the address that the server names; the query of that is kept. For a server behind a proxy that strips a prefix."}),
	pathRow(func(e *entry) *string { return &e.http.Socket }, configkeys.Key{
		Name: "socket", Field: "HTTP.Socket", Example: `"/run/mcp.sock"`,
		Meaning: "The Unix socket at which a server over HTTP listens. url then names the host and the path of requests alone, as in http://localhost/mcp."}),
	keyRow((*entry).readTLS, configkeys.Key{
		Name: "tls", Type: "object", Field: "HTTP.TLS", Example: `{"ca": "ca.pem"}`,
		Meaning: "Which servers to trust at an https URL, and the certificate of this client. The files are read for each new connection."}).nesting(tlsRows),
	mapRow(func(e *entry) *map[string]string { return &e.http.Headers }, configkeys.Key{
		Name: "headers", Aliases: []string{"http_headers"}, Field: "HTTP.Headers", Example: `{"Authorization": "Bearer ${TOKEN}"}`,
		Meaning: "Sent with every request to the endpoint's origin, or with the one that opens a WebSocket. They appear in no log, error or status."}),
	keyRow((*entry).readAuth, configkeys.Key{
		Name: "auth", Aliases: []string{"oauth"}, Type: "boolean or object", Default: "false", Field: "HTTP.Auth", Example: `true`,
		Meaning: "Authorizes this client by OAuth. true discovers everything; the object fixes what it names. The user consents once, by `mcpvisor authorize NAME`."}).nesting(authRows),
	keyRow((*entry).readHeadersCommand, configkeys.Key{
		Name: "headers_command", Aliases: []string{"headersHelper"}, Type: "command line for the shell, or list of strings", Field: "HTTP.Auth", Example: `"./print-headers"`,
		Meaning: "A program that prints a JSON object of headers, or a token alone, which is sent as a bearer token. What it prints is kept until the server answers 401, and is shown nowhere. A list is a program and its arguments; both begin at the workspace. Not together with auth."}),
	keyRow(func(e *entry, v *hujson.Value) { e.kind, _ = e.readString(v); e.kindValue = v }, configkeys.Key{
		Name: "type", Aliases: []string{"transport"}, Type: `"stdio", "http", "sse" or "ws"`, Default: "inferred from the other keys", Field: "HTTP.SSE", Example: `"sse"`,
		Meaning: `"sse" is the deprecated transport HTTP+SSE; "http" detects it, too. "ws" is a WebSocket; programs other than mcpvisor need config.WithWebSocket for it. "local", "remote", "websocket" and spellings of "streamable-http" are accepted too.`}),
	keyRow(func(e *entry, v *hujson.Value) { e.readBool(v, new(bool)) }, configkeys.Key{
		Name: "disabled", Type: "boolean", Default: "false", Example: `true`,
		Meaning: "Lists the entry and does not start it. Nothing else in it is checked."}), // isDisabled has read it
	keyRow(func(e *entry, v *hujson.Value) { e.readBool(v, new(bool)) }, configkeys.Key{
		Name: "enabled", Aliases: enabledAliases, Type: "boolean", Default: "true", Example: `false`,
		Meaning: "false is the same as disabled: true."}), // isDisabled has read it
	keyRow((*entry).readRetry, configkeys.Key{
		Name: "retry", Type: `false, "none", a number of attempts, or object`, Default: DefaultRetry.String(), Field: "Policy", Example: `false`,
		Meaning: "What happens after the session ends by itself. A number changes max_attempts of the default policy. An object replaces the policy: it parks only if it says so. A fleet never gives a server up, and refuses what bounds attempts."}).nesting(retryRows),
	objectRow(timeoutRows, configkeys.Key{
		Name: "timeouts", Field: "Timeouts", Example: `{"call": "2m"}`,
		Meaning: "The clocks of the server. A negative duration means no bound; shutdown and drain must be bounded, and one of call and call_total."}),
	keyRow((*entry).readTimeout, configkeys.Key{
		Name: "timeout", Type: "number", Field: "Timeouts.Call", Example: `60`,
		Meaning: "Other hosts' key for timeouts.call. A number from 1000 up is read as milliseconds, a smaller one as seconds, and a warning says which."}).describedBy(callTimeoutSchema),
	objectRow(limitRows, configkeys.Key{
		Name: "limits", Field: "Limits", Example: `{"max_in_flight": 64}`,
		Meaning: "What the server may cost this process."}),
	keyRow((*entry).readProbe, configkeys.Key{
		Name: "probe", Type: "false or object", Field: "Probe", Example: `false`,
		Meaning: "How a server that is silent is asked whether it is still alive. false never asks."}).nesting(probeRows),
	keyRow((*entry).readTools, configkeys.Key{
		Name: "tools", Type: "list of patterns, or object", Default: "all tools", Field: "Tools", Example: `["read_*", "list_directory"]`,
		Meaning: `The tools that are offered. In a pattern, * stands for any text and ? for one character. An empty list hides every tool. {"NAME": false} hides one tool, and {"NAME": {…}} changes how it is offered; NAME is the server's own. See [keys of a tool](#keys-of-a-tool).`}).nesting(toolRows),
	keyRow(func(e *entry, v *hujson.Value) { e.allowTools(v) }, configkeys.Key{
		Name: "enabledTools", Aliases: []string{"includeTools", "enabled_tools"}, Type: "list of patterns", Default: "all tools", Field: "Tools.Allow", Example: `["read_*"]`,
		Meaning: "Other hosts' key for tools. Where several keys allow tools, only those are offered that all of them allow."}),
	keyRow((*entry).denyTools, configkeys.Key{
		Name: "disabledTools", Aliases: []string{"excludeTools", "disabled_tools"}, Type: "list of patterns", Field: "Tools.Deny", Example: `["delete_*"]`,
		Meaning: "Tools that are hidden. It wins over keys that allow tools."}),
	keyRow((*entry).noteApproval, configkeys.Key{
		Name: "autoApprove", Aliases: []string{"alwaysAllow"}, Type: "any", Example: `["read_file"]`,
		Meaning: "Other hosts' list of tools that they call without asking. It has no effect, because mcpvisor asks before a call only where \"rules\" say so. A warning says so."}),
	keyRow(func(e *entry, v *hujson.Value) { e.readOnDown(v, &e.onDown) }, configkeys.Key{
		Name: "on_down", Aliases: []string{"onDown"}, Type: `"keep", "withdraw", or duration`, Default: "that of the gateway", Example: `"30s"`,
		Meaning: "What happens to the tools, resources and prompts of this server in the lists of a gateway (run --mcp, stdio) while it is down: see on_down of gateway."}),
	choiceRow(func(e *entry) *settings.Share { return &e.share }, configkeys.Key{
		Name: "share", Default: `"shared"`, Example: `"client"`,
		Meaning: "For how many clients of a gateway (run --mcp, stdio) one process of this server runs: for all, or for one, so that each client has a process of its own. It is for servers that keep something for their client, such as an open page. A fleet refuses \"client\"."}, settings.ShareAll, settings.ShareClient),
	orDefaultRow(func(e *entry) *mcpvisor.Era { return &e.spec.Era }, configkeys.Key{
		Name: "era", Default: `"auto"`, Field: "Era", Example: `"legacy"`,
		Meaning: "Fixes the generation of the protocol: legacy is 2024-11-05 to 2025-11-25, modern is 2026-07-28 and newer."}, "auto", mcpvisor.EraLegacy, mcpvisor.EraModern),
}, foreignRows...)

// tlsRows are the keys of "tls".
var tlsRows = []row{
	pathRow(func(e *entry) *string { return &e.tls.CAFile }, configkeys.Key{
		Name: "ca", Default: "those of the system", Field: "HTTP.TLS.CAFile", Example: `"ca.pem"`,
		Meaning: "A file with the certificates in PEM to trust instead: of an authority, or the server's own."}),
	pathRow(func(e *entry) *string { return &e.tls.CertFile }, configkeys.Key{
		Name: "cert", Field: "HTTP.TLS.CertFile", Example: `"client.pem"`,
		Meaning: "The certificate of this client, in PEM. It needs key."}),
	pathRow(func(e *entry) *string { return &e.tls.KeyFile }, configkeys.Key{
		Name: "key", Field: "HTTP.TLS.KeyFile", Example: `"client.key"`,
		Meaning: "The key that belongs to cert, in PEM and not encrypted."}),
	keyRow(func(e *entry, v *hujson.Value) { e.tls.Pins = e.readScopes(v) }, configkeys.Key{
		Name: "pin", Type: "list of strings, or one string with spaces", Field: "HTTP.TLS.Pins", Example: `"sha256/AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="`,
		Meaning: "SHA-256 digests in base64 of the public keys that the server may have, in addition to a certificate that is trusted."}),
	textRow(func(e *entry) *string { return &e.tls.ServerName }, configkeys.Key{
		Name: "server_name", Default: "the host of url", Type: "string", Field: "HTTP.TLS.ServerName", Example: `"mcp.internal"`,
		Meaning: "The name in the server's certificate."}),
}

// toolRows are the keys of the object below "tools" that are not names of tools.
var toolRows = []row{
	keyRow(func(e *entry, v *hujson.Value) { e.allowTools(v) }, configkeys.Key{
		Name: "allow", Type: "list of patterns", Default: "all tools", Field: "Tools.Allow", Example: `["read_*"]`,
		Meaning: "Tools that are offered."}),
	keyRow((*entry).denyTools, configkeys.Key{
		Name: "deny", Type: "list of patterns", Field: "Tools.Deny", Example: `["read_secret"]`,
		Meaning: "Tools that are hidden. It wins over allow."}),
}

// ignoredKeys belong to other hosts and mean nothing here. They cause no warning.
var ignoredKeys = []string{"$schema", "bundled", "description", "dev", "display_name", "gallery", "icon", "id", "name", "note", "required", "source", "trust", "version"}
