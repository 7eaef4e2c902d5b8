package config

import (
	"github.com/tailscale/hujson"

	"github.com/mcpvisor/mcpvisor/gateway/settings"
	"github.com/mcpvisor/mcpvisor/internal/configkeys"
)

// gatewayRows are the keys of "gateway" at the top of a file.
var gatewayRows = []row{
	keyRow((*entry).readProfiles, configkeys.Key{
		Name: "profiles", Type: "object of profiles", Example: `{"review": {"tools": ["read_*"]}}`,
		Meaning: "Parts of the servers, by name: a client of /mcp/NAME, or of `mcpvisor stdio --profile NAME`, gets what the profile offers, and so does a client whose token names it. What a profile hides is unknown to its clients."}).describedBy(&jsonSchema{Type: []string{"object"}, Additional: &jsonSchema{Ref: "#/definitions/profile"}}),
	keyRow(func(e *entry, v *hujson.Value) { e.readOnDown(v, &e.gateway.OnDown) }, configkeys.Key{
		Name: "on_down", Type: `"keep", "withdraw", or duration`, Default: "keep", Example: `"30s"`,
		Meaning: "What happens to the tools, resources and prompts of a server that is down and is started again: they stay listed, are withdrawn, or stay for a time. on_down of an entry takes precedence."}),
	objectRow(nameRows, configkeys.Key{
		Name: "names", Example: `{"prefix": "conflict"}`,
		Meaning: "How tools and prompts are called."}),
	keyRow(func(e *entry, v *hujson.Value) {
		e.gateway.ResourceOrder = e.readList(v)
		for _, server := range e.gateway.ResourceOrder {
			e.serverPatterns = append(e.serverPatterns, serverPattern{e.key, server, v, e.p.text})
		}
	}, configkeys.Key{
		Name: "resource_order", Type: "list of strings", Default: "none", Example: `["files", "git"]`,
		Meaning: "The servers that come first, in this order, if several list a resource or have a template for it. Without one of them, a URI that does not name its server is refused, and the error says how to name it."}),
	keyRow((*entry).readExtensions, configkeys.Key{
		Name: "extensions", Type: "object", Default: "that for user interfaces (MCP Apps)", Example: `{"io.modelcontextprotocol/ui": {"mimeTypes": ["text/html;profile=mcp-app"]}}`,
		Meaning: "The extensions of MCP that servers and hosts are told of, with their settings. Many servers show their apps only where they are declared; {} declares none. It is read at the start of a run, and not in a fleet."}).describedBy(&jsonSchema{Type: []string{"object"}, Names: &jsonSchema{Pattern: "/"}, Additional: &jsonSchema{Type: []string{"object"}}}),
	keyRow(func(e *entry, v *hujson.Value) { e.gateway.Origins = e.readSites(v, settings.ParseOrigin) }, configkeys.Key{
		Name: "origins", Type: "list of strings", Default: "none", Example: `["http://localhost:6274"]`,
		Meaning: "The web sites whose pages may use the MCP server of `mcpvisor run --mcp`. The port may be *, for any port. --mcp-origin adds others."}).describedBy(siteSchema(`^[^*]+(:\*)?$`)),
	keyRow(func(e *entry, v *hujson.Value) { e.gateway.Hosts = e.readSites(v, settings.ParseHost) }, configkeys.Key{
		Name: "hosts", Type: "list of strings", Default: "none", Example: `["host.docker.internal"]`,
		Meaning: "The names beside those of this machine by which clients may address that MCP server: the name in the Host header, without port. With tokens and without a list, any name. --mcp-host adds others."}).describedBy(siteSchema("^[^*/]+$")),
	countRow(func(e *entry) *int { return &e.gateway.MaxResultBytes }, configkeys.Key{
		Name: "result_max", Default: "0, which is no bound", Example: `50000`,
		Meaning: "The bytes above which the text in the result of a tool is shortened: the client gets its beginning, and a link to all of it."}),
	countRow(func(e *entry) *int { return &e.gateway.MaxCopies }, configkeys.Key{
		Name: "max_copies", Default: "64", Example: `100`,
		Meaning: `How many processes of servers with "share": "client" run for all clients. A request that needs one more is refused.`}),
	countRow(func(e *entry) *int { return &e.gateway.MaxCopiesOfPrincipal }, configkeys.Key{
		Name: "max_copies_per_principal", Default: "32", Example: `10`,
		Meaning: "How many of them run for one principal. All clients without a token are one."}),
	mebibytesRow(func(e *entry) *int64 { return &e.gateway.MaxHeldByAll }, configkeys.Key{
		Name: "max_held_mib", Default: "a quarter of the memory limit, or 1,024", Example: `512`,
		Meaning: "How many MiB all clients make the gateway hold: sessions, subscriptions, bodies, unread answers and held calls. What exceeds it is refused."}),
	mebibytesRow(func(e *entry) *int64 { return &e.gateway.MaxHeldByPrincipal }, configkeys.Key{
		Name: "max_held_mib_per_principal", Default: "256", Example: `64`,
		Meaning: "How many of them are for one principal. All clients without a token are one."}),
}

// siteSchema is the schema of a list of texts that match a pattern.
func siteSchema(pattern string) *jsonSchema {
	return &jsonSchema{Type: []string{"array"}, Items: &jsonSchema{Type: []string{"string"}, Pattern: pattern}}
}

// nameRows are the keys of "names" of the gateway.
var nameRows = []row{
	keyRow((*entry).readPrefix, configkeys.Key{
		Name: "prefix", Type: `"always", "conflict" or "never"`, Default: "always", Example: `"conflict"`,
		Meaning: `Whether the name of a tool begins with that of its server: always, if several servers have the tool, or never. With "never" a tool that several servers have is an error: of the file if the entries name their tools, otherwise it is withheld, and the status says so.`}),
	keyRow((*entry).readHostPrefix, configkeys.Key{
		Name: "host_prefix", Type: "string", Default: "mcp__mcpvisor__", Example: `""`,
		Meaning: "What the host puts before each name. Names are shortened so that both together fit 64 characters."}),
}

// profileRows are the keys of a profile.
var profileRows = []row{
	keyRow(func(e *entry, v *hujson.Value) { e.readFilter(v, &e.profile.Servers, "/[]{}") }, configkeys.Key{
		Name: "servers", Type: "list of patterns, or allow and deny", Default: "all servers", Example: `["git*", "files"]`,
		Meaning: "The servers that are offered. In a pattern, * stands for any text and ? for one character. An empty list offers none."}),
	keyRow(func(e *entry, v *hujson.Value) { e.readFilter(v, &e.profile.Tools, "[]{}") }, configkeys.Key{
		Name: "tools", Type: "list of patterns, or allow and deny", Default: "all tools", Example: `{"allow": ["read_*", "files/*"], "deny": ["*/delete_*"]}`,
		Meaning: "The tools of these servers that are offered. A pattern with a slash also has the server. deny takes precedence."}),
	keyRow(func(e *entry, v *hujson.Value) { e.readFilter(v, &e.profile.Prompts, "[]{}") }, configkeys.Key{
		Name: "prompts", Type: "list of patterns, or allow and deny", Default: "all prompts", Example: `["review_*"]`,
		Meaning: "The prompts of these servers that are offered."}),
	keyRow(func(e *entry, v *hujson.Value) { e.readFilter(v, &e.profile.Resources, "") }, configkeys.Key{
		Name: "resources", Type: "list of patterns, or allow and deny", Default: "all resources", Example: `["file:///srv/*"]`,
		Meaning: "The resources of these servers that may be read, by their URI, listed or not. A URI with a .. segment matches nothing."}),
	objectRow(annotationRows, configkeys.Key{
		Name: "annotations", Example: `{"readOnlyHint": true}`,
		Meaning: "What the annotations of a tool must say. A server can write there what it likes."}),
}

// annotationRows are the keys of "annotations" of a profile.
var annotationRows = []row{
	keyRow(func(e *entry, v *hujson.Value) { e.readHint(v, &e.profile.Annotations.ReadOnly) }, configkeys.Key{
		Name: "readOnlyHint", Type: "boolean", Example: `true`,
		Meaning: "The tool changes nothing. A tool that does not say so may change something."}),
	keyRow(func(e *entry, v *hujson.Value) { e.readHint(v, &e.profile.Annotations.Destructive) }, configkeys.Key{
		Name: "destructiveHint", Type: "boolean", Example: `false`,
		Meaning: "The tool may destroy something. A tool that does not say otherwise may, unless it is read only."}),
	keyRow(func(e *entry, v *hujson.Value) { e.readHint(v, &e.profile.Annotations.Idempotent) }, configkeys.Key{
		Name: "idempotentHint", Type: "boolean", Example: `true`,
		Meaning: "A second call with the same arguments has no further effect. A tool that does not say so may have one."}),
	keyRow(func(e *entry, v *hujson.Value) { e.readHint(v, &e.profile.Annotations.OpenWorld) }, configkeys.Key{
		Name: "openWorldHint", Type: "boolean", Example: `false`,
		Meaning: "The tool reaches out, as to the web. A tool that does not say otherwise may."}),
}
