package house

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	sdk     = "github.com/modelcontextprotocol/go-sdk/"
	proto   = "github.com/asynkron/protoactor-go/"
	zerolog = "github.com/rs/zerolog"
	xsys    = "golang.org/x/sys/"
	xtime   = "golang.org/x/time/"
	keyring = "github.com/zalando/go-keyring/"
	otel    = "go.opentelemetry.io/otel/"
)

// arrow is what a folder may import besides the standard library.
type arrow struct {
	// folders are folders of this repository, separated by spaces. "." is the root package;
	// a folder with a trailing "/" stands for all packages below it.
	folders string
	// foreign are prefixes of import paths of other modules.
	foreign []string
}

// arrows is the import plan. A folder that it does not list has the arrow of its parent
// folder.
var arrows = map[string]arrow{
	"supervisor":            {folders: "internal/backoff internal/defaults"},
	"internal/backoff":      {},
	"internal/defaults":     {},
	"internal/retention":    {},
	"internal/lifecycle":    {folders: "supervisor internal/defaults"},
	"internal/group":        {folders: "supervisor internal/lifecycle"},
	"internal/grouptree":    {folders: ". supervisor internal/group"},
	"internal":              {folders: "internal/"},
	"internal/decisive":     {folders: "supervisor internal/display"},
	".":                     {"supervisor internal/", []string{sdk}},
	"internal/headerparams": {folders: ". internal/"},
	"internal/usage":        {folders: ". internal/procfs"},
	"internal/procfs":       {},
	"internal/relayhook":    {folders: ". supervisor internal/task transport"},
	"monitor":               {folders: ". supervisor internal/display internal/latency"},
	"internal/configkeys":   {},
	"internal/catalog":      {". supervisor internal/canonical internal/display internal/jsonscan internal/retention", []string{sdk}},
	"oauth":                 {". internal/ oauth/internal/", []string{sdk + "oauthex/", keyring}},
	"test/schematest":       {"", []string{"pgregory.net/rapid"}},
	"internal/serverconn":   {folders: ". internal/regularfile"},
	"headerauth":            {folders: ". internal/"},
	"lock":                  {folders: ". internal/canonical internal/display"},
	"rules":                 {". internal/display internal/hostcall internal/pattern", []string{sdk}},
	"records":               {folders: ". internal/canonical internal/display internal/filelock internal/ownfile monitor"},
	"test/fixture/role":     {folders: "."},
	"test/fixture/process":  {"", []string{xsys}},
	"internal/encodedlists": {". internal/catalog internal/jsonbound internal/jsonscan internal/retention", []string{sdk}},
	"messages":              {folders: ". supervisor internal/catalog"},
	"transport":             {". supervisor internal/ monitor", []string{sdk, zerolog}},
	"transport/dial":        {". transport transport/internal/stdio transport/internal/streamable", nil},

	"transport/internal/process/descendants": {"internal/procfs", []string{xsys}},
	"test/raw":                               {},
	"test/adaptertest":                       {". supervisor facade mcptest", []string{sdk, "github.com/stretchr/testify/require"}},
	"test/gatewaytest":                       {"mcptest test/testutil", []string{"github.com/google/jsonschema-go/jsonschema", "github.com/stretchr/testify/require"}},

	"transport/discovery":                     {". supervisor internal/ transport", []string{sdk}},
	"transport/internal/redact":               {"internal/", nil},
	"transport/internal/pipe":                 {},
	"internal/poll":                           {"", []string{xsys}},
	"transport/internal/process":              {". supervisor internal/ transport/internal/redact transport/internal/pipe internal/poll transport/internal/process/descendants monitor", []string{xsys}},
	"transport/internal/jsonrpc":              {". supervisor internal/ transport transport/internal/redact", []string{sdk, xtime}},
	"transport/internal/inbound":              {". supervisor internal/ transport transport/internal/jsonrpc transport/internal/redact", []string{sdk, zerolog}},
	"transport/internal/memory":               {". supervisor internal/ transport/internal/process transport/internal/redact monitor", nil},
	"transport/internal/custom":               {". supervisor internal/ transport/internal/memory transport/internal/process transport/internal/redact", []string{sdk}},
	"transport/internal/stdio":                {". supervisor internal/ transport transport/internal/ monitor", []string{sdk, xtime}},
	"transport/internal/stdio/reader":         {"internal/ transport/internal/jsonrpc transport/internal/pipe internal/poll", nil},
	"transport/internal/endpoint":             {". supervisor internal/ transport transport/internal/jsonrpc transport/internal/redact", nil},
	"transport/internal/httpbody":             {"transport/internal/jsonrpc", nil},
	"transport/internal/streamable":           {". supervisor internal/ transport transport/internal/", []string{sdk, zerolog, xtime}},
	"transport/internal/transporttest":        {". supervisor internal/ transport transport/internal/jsonrpc", []string{sdk, zerolog, "github.com/stretchr/testify/require"}},
	"actors":                                  {". supervisor internal/ messages transport transport/discovery actors/ monitor", []string{proto, "github.com/orcaman/concurrent-map", zerolog, "golang.org/x/time/rate"}},
	"facade":                                  {". supervisor internal/ transport transport/dial actors monitor", []string{sdk, zerolog}},
	"facade/relay":                            {". supervisor facade internal/ monitor transport transport/dial", nil},
	"gateway":                                 {". supervisor facade facade/relay internal/ gateway/internal/ gateway/clients gateway/settings", []string{sdk}},
	"gateway/internal/sessionid":              {folders: "internal/ownfile gateway/internal/owner"},
	"gateway/internal/seal":                   {},
	"gateway/internal/hostschema":             {folders: "internal/ gateway/internal/message"},
	"gateway/internal/message":                {"internal/", []string{sdk}},
	"gateway/internal/capability":             {"facade facade/relay internal/ gateway/internal/message", nil},
	"gateway/internal/lines":                  {"internal/ gateway/internal/message", []string{sdk}},
	"gateway/internal/owner":                  {},
	"gateway/internal/longresult":             {"internal/ gateway/internal/message gateway/internal/owner", nil},
	"gateway/internal/resource":               {folders: ". internal/jsonscan gateway/internal/message"},
	"gateway/internal/subscriptions":          {folders: "gateway/internal/resource"},
	"gateway/internal/roundtrip":              {". facade facade/relay internal/ gateway/internal/capability gateway/internal/message gateway/internal/seal", []string{sdk}},
	"gateway/internal/elicited":               {". facade facade/relay internal/ gateway/internal/message", []string{sdk}},
	"gateway/internal/httpwire":               {"gateway/internal/message internal/jsonscan", []string{sdk}},
	"gateway/internal/notices":                {". internal/budget gateway/internal/listing gateway/internal/message gateway/internal/resource", []string{sdk}},
	"gateway/settings":                        {folders: ". internal/loopback"},
	"gateway/internal/offer":                  {". supervisor gateway/settings facade/relay", []string{sdk}},
	"gateway/internal/listing":                {". supervisor internal/ gateway/internal/hostschema gateway/internal/message gateway/internal/offer gateway/internal/resource gateway/settings facade/relay", []string{sdk}},
	"gateway/internal/tasktext":               {"internal/ gateway/internal/message", nil},
	"gateway/internal/opentasks":              {". facade facade/relay internal/ gateway/clients gateway/internal/message gateway/internal/owner gateway/internal/tasktext", []string{sdk}},
	"gateway/clients":                         {folders: "internal/display"},
	"internal/textresult":                     {"internal/jsonscan internal/jsonbound", []string{sdk}},
	"config":                                  {". supervisor oauth headerauth rules internal/ gateway/settings", []string{"github.com/tailscale/hujson"}},
	"schema":                                  {". internal/display internal/pattern", []string{sdk}},
	"telemetry":                               {"internal/usage . supervisor facade facade/relay gateway/clients monitor", []string{sdk, otel}},
	"journal":                                 {". internal/filelock internal/ownfile", []string{"go.etcd.io/bbolt"}},
	"mcptest":                                 {". mcptest mcptest/ internal/ test/fixture/", []string{sdk, xsys}},
	"mcptest/chaos":                           {". supervisor facade internal/argcheck internal/defaults internal/display internal/nearest internal/backoff internal/procfs internal/serverconn", []string{sdk}},
	"web/api":                                 {folders: ". supervisor gateway/clients monitor"},
	"web":                                     {". supervisor facade facade/relay gateway/clients internal/ web/api web/internal/ monitor", []string{xtime}},
	"cmd/demo":                                {". supervisor facade web web/api mcptest mcptest/ internal/", []string{sdk, zerolog, "golang.org/x/term"}},
	"cmd/mcpvisor":                            {". supervisor facade gateway gateway/clients lock records web web/api config mcptest/chaos internal/ cmd/mcpvisor/internal/ monitor", []string{sdk, "github.com/alecthomas/kong", xsys, "golang.org/x/term"}},
	"cmd/mcpvisor/internal/cli":               {". supervisor config internal/display internal/regularfile cmd/mcpvisor/internal/table cmd/mcpvisor/internal/plaintext internal/configkeys internal/nearest", nil},
	"cmd/mcpvisor/internal/edit":              {". config internal/ cmd/mcpvisor/internal/cli cmd/mcpvisor/internal/attach cmd/mcpvisor/internal/control cmd/mcpvisor/internal/configfile cmd/mcpvisor/internal/hosts cmd/mcpvisor/internal/presets cmd/mcpvisor/internal/table cmd/mcpvisor/internal/websocket", nil},
	"cmd/mcpvisor/internal/servers":           {". supervisor facade lock rules web web/api config internal/ cmd/mcpvisor/internal/attach cmd/mcpvisor/internal/cli cmd/mcpvisor/internal/contents cmd/mcpvisor/internal/control cmd/mcpvisor/internal/form cmd/mcpvisor/internal/table cmd/mcpvisor/internal/websocket", []string{"golang.org/x/term", keyring, sdk}},
	"cmd/mcpvisor/internal/daemon":            {". supervisor facade gateway gateway/settings gateway/clients web web/api journal records rules config internal/ cmd/mcpvisor/internal/attach cmd/mcpvisor/internal/cli cmd/mcpvisor/internal/control cmd/mcpvisor/internal/difference cmd/mcpvisor/internal/export cmd/mcpvisor/internal/oidcauth cmd/mcpvisor/internal/servers cmd/mcpvisor/internal/socket cmd/mcpvisor/internal/table cmd/mcpvisor/internal/plaintext", []string{sdk, "github.com/prometheus/client_golang/", "github.com/fsnotify/fsnotify", "golang.org/x/term"}},
	"cmd/mcpvisor/internal/difference":        {". internal/configkeys internal/secret cmd/mcpvisor/internal/control cmd/mcpvisor/internal/table", nil},
	"cmd/mcpvisor/internal/export":            {"facade gateway/clients telemetry internal/secret cmd/mcpvisor/internal/cli cmd/mcpvisor/internal/table", []string{otel, xtime, "github.com/go-logr/logr", "github.com/prometheus/client_golang/"}},
	"cmd/mcpvisor/internal/doctor":            {". supervisor config oauth internal/ cmd/mcpvisor/internal/cli cmd/mcpvisor/internal/configfile cmd/mcpvisor/internal/servers cmd/mcpvisor/internal/table cmd/mcpvisor/internal/plaintext", []string{sdk}},
	"cmd/mcpvisor/internal/fleetcmd":          {"internal/regularfile . supervisor facade web/api config gateway/settings fleet fleet/certs fleet/guard fleet/peer fleet/store fleet/store/etcd internal/backoff internal/display cmd/mcpvisor/internal/cli cmd/mcpvisor/internal/configfile cmd/mcpvisor/internal/daemon cmd/mcpvisor/internal/hosts cmd/mcpvisor/internal/plaintext cmd/mcpvisor/internal/servers internal/canonical", []string{"github.com/rs/zerolog", "github.com/tailscale/hujson"}},
	"cmd/mcpvisor/internal/socket":            {folders: "internal/filelock internal/ownfile"},
	"cmd/mcpvisor/internal/form":              {"facade internal/display cmd/mcpvisor/internal/params", []string{sdk}},
	"cmd/mcpvisor/internal/contents":          {". internal/display cmd/mcpvisor/internal/plaintext", []string{sdk}},
	"cmd/mcpvisor/internal/facts":             {". supervisor monitor gateway/clients web/api internal/display cmd/mcpvisor/internal/plaintext cmd/mcpvisor/internal/table", nil},
	"cmd/mcpvisor/internal/table":             {". internal/display cmd/mcpvisor/internal/params cmd/mcpvisor/internal/plaintext", []string{"golang.org/x/term"}},
	"cmd/mcpvisor/internal/commandline":       {foreign: []string{"github.com/alecthomas/kong"}},
	"cmd/mcpvisor/internal/params":            {folders: "internal/secret internal/argcheck internal/display internal/nearest cmd/mcpvisor/internal/plaintext"},
	"cmd/mcpvisor/internal/plaintext":         {folders: "internal/display"},
	"cmd/mcpvisor/internal/configfile":        {". config internal/regularfile internal/configkeys", []string{"github.com/tailscale/hujson"}},
	"cmd/mcpvisor/internal/hosts":             {". config internal/ cmd/mcpvisor/internal/configfile cmd/mcpvisor/internal/websocket", []string{"github.com/tailscale/hujson", "github.com/BurntSushi/toml", "go.yaml.in/yaml/v3"}},
	"cmd/mcpvisor/internal/websocket":         {". supervisor config internal/display", []string{sdk, "github.com/coder/websocket"}},
	"cmd/mcpvisor/internal/presets":           {folders: "cmd/mcpvisor/internal/configfile"},
	"cmd/mcpvisor/internal/control":           {". rules supervisor facade facade/relay gateway gateway/settings gateway/clients internal/ web web/api cmd/mcpvisor/internal/bridge cmd/mcpvisor/internal/cli", []string{sdk}},
	"cmd/mcpvisor/internal/oidcauth":          {"gateway internal/loopback", []string{sdk, xtime, "github.com/coreos/go-oidc/"}},
	"cmd/mcpvisor/internal/oidcauth/oidctest": {"", []string{"github.com/coreos/go-oidc/", "github.com/stretchr/testify/require"}},
	"cmd/mcpvisor/internal/bridge":            {folders: ". facade internal/backoff internal/canonical internal/envelope internal/jsonscan internal/linereader"},
	"cmd/mcpvisor/internal/top":               {". supervisor gateway/clients web web/api internal/ cmd/mcpvisor/internal/contents cmd/mcpvisor/internal/facts cmd/mcpvisor/internal/params cmd/mcpvisor/internal/table cmd/mcpvisor/internal/plaintext monitor", []string{"charm.land/", "github.com/charmbracelet/x/ansi"}},
	"cmd/mcpvisor/internal/attach":            {". monitor web web/api cmd/mcpvisor/internal/socket cmd/mcpvisor/internal/control", nil},
	"test/hostile":                            {". mcptest internal/ test/fixture/ test/hostile", []string{sdk, xsys}},
	"test":                                    {". supervisor facade config oauth mcptest mcptest/ internal/ test/raw", []string{sdk, zerolog}},

	"fleet":                              {". supervisor facade facade/relay config transport transport/dial internal/ fleet fleet/", []string{sdk, zerolog}},
	"fleet/internal/records":             {"fleet/placement fleet/store", nil},
	"fleet/internal/protocol":            {"fleet/placement fleet/store fleet/internal/records", nil},
	"fleet/internal/guards":              {"fleet/guard fleet/store", nil},
	"fleet/internal/runner":              {"fleet/placement fleet/store fleet/internal/boottime fleet/internal/records fleet/internal/protocol", nil},
	"fleet/internal/boottime":            {foreign: []string{xsys}},
	"fleet/internal/storetest":           {"fleet/store", []string{"github.com/stretchr/testify/require"}},
	"fleet/internal/storetest/kv":        {folders: "fleet/store"},
	"fleet/internal/storetest/memory":    {folders: "fleet/store fleet/internal/storetest/kv fleet/internal/boottime"},
	"fleet/internal/etcdtest":            {foreign: []string{"github.com/stretchr/testify/"}},
	"fleet/placement":                    {},
	"fleet/store":                        {},
	"fleet/store/etcd":                   {"fleet/store", []string{"go.etcd.io/etcd/", "go.uber.org/zap", "google.golang.org/grpc/"}},
	"fleet/certs":                        {},
	"fleet/peer":                         {". supervisor facade facade/relay transport internal/budget internal/waitqueue internal/encodedlists internal/catalog fleet/certs fleet/internal/catalog fleet/internal/framing fleet/internal/varint", []string{sdk, "google.golang.org/grpc/"}},
	"fleet/internal/framing":             {"fleet/internal/varint", []string{"google.golang.org/grpc/"}},
	"fleet/internal/framing/framingtest": {"", []string{"google.golang.org/grpc/"}},
	"fleet/internal/varint":              {},
	"fleet/internal/forward":             {". facade facade/relay transport internal/ fleet/peer", []string{sdk}},
	"fleet/internal/catalog":             {". supervisor internal/ facade/relay", []string{sdk}},
	"fleet/guard":                        {"fleet/internal/boottime internal/procfs", []string{xsys}},
	"fleet/fleettest":                    {". supervisor facade fleet fleet/ test/raw internal/procfs", []string{sdk, zerolog, "github.com/stretchr/testify/require"}},
}

// arrowOf returns the arrow of a folder.
func arrowOf(folder string) (arrow, bool) {
	for {
		if a, ok := arrows[folder]; ok {
			return a, true
		}
		i := strings.LastIndex(folder, "/")
		if i < 0 {
			return arrow{}, false
		}
		folder = folder[:i]
	}
}

func (a arrow) allows(path string, standard bool) bool {
	if standard {
		return true
	}
	if folder, ours := folderOf(path); ours {
		return slices.ContainsFunc(strings.Fields(a.folders), func(allowed string) bool {
			return folder == allowed || strings.HasSuffix(allowed, "/") && strings.HasPrefix(folder, allowed)
		})
	}
	return slices.ContainsFunc(a.foreign, func(prefix string) bool { return strings.HasPrefix(path+"/", prefix) })
}

func TestArrowsPointOneWay(t *testing.T) {
	t.Parallel()
	for _, platform := range platforms {
		packages := graph(t, platform)
		checked := 0
		for _, path := range slices.Sorted(maps.Keys(packages)) {
			p := packages[path]
			folder, ours := p.folder()
			if !ours {
				continue
			}
			checked++
			a, planned := arrowOf(folder)
			require.True(t, planned, "%s has no arrow; add it to arrows_test.go", folder)
			for _, imported := range p.Imports {
				require.True(t, a.allows(imported, packages[imported].Standard),
					"%s (%s) imports %s, which is against the plan in test/house/arrows_test.go", folder, platform, imported)
			}
		}
		require.Greater(t, checked, 8, "the packages of the module are listed")
	}
}

// TestWebIsOptional: only commands import package web, so that no other program pays for
// the page.
func TestWebIsOptional(t *testing.T) {
	for _, platform := range platforms {
		for _, p := range graph(t, platform) {
			if folder, ours := p.folder(); ours && !strings.HasPrefix(folder, "cmd/") {
				require.NotContains(t, p.Imports, module+"web", "%s imports package web; only cmd may", folder)
			}
		}
	}
}

// TestOAuthIsOptional: a program that embeds the facade links no OAuth and no keyring, unless
// it imports package oauth. golang.org/x/oauth2 is not in the list: package mcp of the go-sdk
// imports it.
func TestOAuthIsOptional(t *testing.T) {
	optional := func(dep string) bool {
		return strings.HasPrefix(dep+"/", module+"oauth/") || strings.HasPrefix(dep+"/", keyring) || strings.HasPrefix(dep, "github.com/godbus/dbus/")
	}
	for _, platform := range platforms {
		packages := graph(t, platform)
		require.True(t, slices.ContainsFunc(packages[module+"config"].Deps, optional), "package oauth is found")
		for _, free := range []string{"facade", "gateway", "web", "telemetry", "journal"} {
			require.Contains(t, packages, module+free)
			i := slices.IndexFunc(packages[module+free].Deps, optional)
			if i >= 0 {
				require.Fail(t, "it links what only users of OAuth need", "%s (%s) depends on %s", free, platform, packages[module+free].Deps[i])
			}
		}
	}
}

// TestFleetIsOptional: only the module fleet, and the program with its commands for fleets, link
// and require etcd and gRPC. The exporters of OpenTelemetry, for HTTP too, link gRPC, so a run does. The parts that decide are pure.
func TestFleetIsOptional(t *testing.T) {
	engine := func(dep string) bool {
		return strings.HasPrefix(dep, "go.etcd.io/etcd/") || strings.HasPrefix(dep+"/", "google.golang.org/grpc/")
	}
	for _, platform := range platforms {
		packages := graph(t, platform)
		require.True(t, slices.ContainsFunc(packages[module+"fleet/store/etcd"].Deps, engine), "the engine is found")
		for path, p := range packages {
			folder, ours := p.folder()
			exports := folder == "cmd/mcpvisor/internal/export" || folder == "cmd/mcpvisor/internal/daemon"
			if ours && folder != "fleet" && !strings.HasPrefix(folder, "fleet/") && folder != "cmd/mcpvisor" && folder != "cmd/mcpvisor/internal/fleetcmd" {
				require.False(t, slices.ContainsFunc(p.Deps, func(dep string) bool {
					return engine(dep) && !(exports && strings.HasPrefix(dep+"/", "google.golang.org/grpc/"))
				}), "%s (%s) depends on etcd or gRPC", path, platform)
			}
		}
		for _, pure := range []string{"fleet/placement", "fleet/internal/records", "fleet/internal/protocol", "fleet/internal/storetest/kv"} {
			for _, dep := range packages[module+pure].Deps {
				require.True(t, packages[dep].Standard || strings.HasPrefix(dep, module+"fleet/"), "%s depends on %s", pure, dep)
			}
		}
	}
	sums, err := os.ReadFile(filepath.Join(root, "go.sum"))
	require.NoError(t, err)
	require.NotContains(t, string(sums), "go.etcd.io/etcd/")
	require.NotContains(t, string(sums), "google.golang.org/grpc ")
}

func TestActorLibraryStaysInActors(t *testing.T) {
	isActor := func(path string) bool { return strings.HasPrefix(path+"/", proto) }
	for _, platform := range platforms {
		packages := graph(t, platform)
		require.True(t, slices.ContainsFunc(packages[module+"actors"].Imports, isActor), "the actor library is found")
		for _, p := range packages {
			folder, ours := p.folder()
			if !ours || folder == "actors" {
				continue
			}
			for _, imports := range [][]string{p.Imports, p.TestImports, p.XTestImports} {
				require.False(t, slices.ContainsFunc(imports, isActor), "%s imports the actor library; only actors may", folder)
			}
		}
		for _, free := range []string{"messages", "transport", "config", "mcptest"} {
			require.False(t, slices.ContainsFunc(packages[module+free].Deps, isActor), "%s depends on the actor library", free)
		}
	}
}

// TestTestsRequire: tests use testify's require, which ends a test at its first
// failure, and not assert.
func TestTestsRequire(t *testing.T) {
	for _, p := range graph(t, "linux") {
		if folder, ours := p.folder(); ours {
			for _, imports := range [][]string{p.TestImports, p.XTestImports} {
				require.NotContains(t, imports, "github.com/stretchr/testify/assert", "%s: use require", folder)
			}
		}
	}
}
