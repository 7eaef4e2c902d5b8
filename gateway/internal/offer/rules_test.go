package offer

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/gateway/settings"
)

// What two readers of URIs may read differently is not offered by a profile that limits resources, whatever
// its patterns allow; what all of them read alike is compared in each of its spellings.
func TestRules_OffersURI(t *testing.T) {
	docs := New(settings.Profile{Resources: mcpvisor.ToolFilter{Allow: []string{"file:///srv/docs/*", "https://a.example/*", "FILE:*", "x:*", "postgres://*", "file://{*"}}})
	for _, uri := range []string{"file:///srv/docs/a", "file:///srv/docs/a%20b.md", "file:///srv/docs/a..b", "file:///srv/docs/.hidden/x", "file:///srv/docs/dir/", "file:///srv/docs/\u00e9t\u00e9",
		"file:///srv/docs/{+path}", "file://{+path}", "https://a.example/x?q=a.b&r=%2F", "https://a.example/x#part", "x:y", "x:Y", "x://a//b", "x:https://b/c", "postgres://me@db:5432/t/schema"} {
		require.True(t, docs.OffersURI(uri), "%q", uri)
	}
	for _, uri := range []string{
		"file:///srv/docs/.\t./secret", "file:///srv/docs/.\n./.\t./x", "file:///srv/docs/..\x01", "file:///srv/docs/.. ", " file:///srv/docs/a", "file:///srv/docs/a b", "file:///srv/docs/a\x7f",
		"file:///srv/docs/a\u0085b", "file:///srv/docs/a\xff", "file:///srv/docs/%00", "file:///srv/docs/a%0ab", "file:///srv/docs/%2500",
		"file:///srv/docs/../x", "file:///srv/docs/..", "file:///srv/docs/.", "file:///srv/docs/./x", "file:///srv/docs/..;a/x", "file:///srv/docs/%2e%2e/x", "file:///srv/docs/%252E%252E/x", "file:///srv/docs/.%2e/x",
		"file:///srv/docs/..%2fx", "file:///srv/docs/..%5cx", "file:///srv/docs/a\\b", "file:///srv/docs/a%5Cb", "file:///srv/docs/%zz", "file:///srv/docs/%73", "file:///srv/docs//x",
		"file:///srv/docs/\uff0e\uff0e/x", "file:///srv/docs/%EF%BC%8E%EF%BC%8E/x", "file:///srv/docs/\u2025/x", "file:///srv/docs/a\uff0fb",
		"FILE:///srv/docs/a", "file://localhost/srv/docs/a", "file:/srv/docs/a", "X:y",
		"https://a.example/../x", "https://me@a.example/x", "https://A.example/x", "https://a.example:443/x", "https://a.example./x", "https:/a.example/x", "https://a.example//x", "https://a.example/x?y=%00",
	} {
		require.False(t, docs.OffersURI(uri), "%q", uri)
	}
	for _, uri := range []string{"https://127.1/x", "https://0x7f000001/x", "https://2130706433/x", "https://\uff41/x"} {
		_, plain := readings(uri)
		require.False(t, plain, "%q", uri)
	}
	closed := New(settings.Profile{Resources: mcpvisor.ToolFilter{Deny: []string{"file:///srv/closed*", "https://a.example/closed", "x:closed/y"}}})
	for _, uri := range []string{"file:///srv/closed/a", "file:///srv%2Fclosed/a", "file:///srv%252Fclosed/a", "file:///srv/%63losed/a", "https://a.example/closed?x", "https://a.example/closed#x", "https://a.example/closed/", "x:closed%2Fy"} {
		require.False(t, closed.OffersURI(uri), "%q", uri)
	}
	require.True(t, closed.OffersURI("file:///srv/open/a"))
	require.True(t, (*Rules)(nil).OffersURI("file:///a/../b\t"))
	require.True(t, New(settings.Profile{}).OffersURI("file:///a/../b\t"), "without a filter of resources")
}
