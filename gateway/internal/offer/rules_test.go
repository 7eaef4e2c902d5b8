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

// A denied resource has no other spelling: whatever readers take for it is compared as it is, or refused.
func TestRules_OffersURI_spellings(t *testing.T) {
	closed := New(settings.Profile{Resources: mcpvisor.ToolFilter{Deny: []string{"https://a.example/closed", "https://a.example/closed/*", "https://a.example/", "http://[::1]/*", "http://127.0.0.1/*", "https://a.example:8443/*",
		"file:///srv/\u00e9*", "https://a.example/%C3%BCber%7C"}}})
	for _, uri := range []string{
		// ports
		"https://a.example:0443/closed", "https://a.example:00443/closed", "https://a.example:443/closed", "https://a.example:/closed", "https://a.example:08443/x", "https://a.example:8443/x", "https://a.example:+443/closed",
		// addresses
		"http://[::1]/x", "http://127.0.0.1/x", "http://[0:0:0:0:0:0:0:1]/x", "http://[::0:1]/x", "http://[0::1]/x", "http://[::0001]/x", "http://[::ffff:127.0.0.1]/x", "http://[::ffff:7f00:1]/x", "http://[::FFFF:127.0.0.1]/x", "http://[::127.0.0.1]/x",
		"http://[::1%25lo]/x", "http://[127.0.0.1]/x", "http://127.0.0.01/x", "http://127.1/x", "http://0177.0.0.1/x", "http://[v1.a]/x",
		// hosts, users, schemes
		"https://a.example./closed", "https://A.example/closed", "HTTPS://a.example/closed", "https://me@a.example/closed", "https://@a.example/closed", "https://:@a.example/closed", "https:///a.example/closed", "https:a.example/closed", "https://a%2Eexample/closed", "https://a.example", "https://a.example?x", "https://a.example/?x", "https://a\u00ad.example/closed",
		// segments
		"https://a.example//closed", "https://a.example/;/closed", "https://a.example/;x/closed", "https://a.example/./closed", "https://a.example/x/../closed", "https://a.example/x/..;/closed", "https://a.example/%2e/closed", "https://a.example/%2E/closed", "https://a.example/x/..%20/closed", "https://a.example/%20../closed", "https://a.example/closed%20", "https://a.example/closed.", "https://a.example/closed...", "https://a.example/closed.%20", "https://a.example\\closed", "https://a.example/x%5C..%5Cclosed", "https://a.example/closed%2F..%2F", "https://a.example/closed%2Fx",
		"https://a.example/closed;v=1", "https://a.example/closed;v=1/x", "https://a.example/closed;", "https://a.example/closed%3Bx", "https://a.example/closed/", "https://a.example/closed?", "https://a.example/closed#", "https://a.example/closed#a?b",
		// escapes
		"https://a.example/%63losed", "https://a.example/%2563losed", "https://a.example/%u0063losed", "https://a.example/%C3%BCber%7C", "https://a.example/%c3%bcber%7c", "https://a.example/\u00fcber|", "https://a.example/\u00fcber%7C",
		// characters
		"https://a.example/closed\u200b", "https://a.example/clo\u00adsed", "https://a.example/\ufeffclosed", "https://a.example/clo%E2%80%8Bsed", "https://a.example/clo%C2%ADsed", "https://a.example/clo\u034fsed", "https://a.example/clo\u3164sed", "https://a.example/closed\ufe0f", "https://a.example/closed\U000e0001",
		"https://a.example/\uff43losed", "https://a.example/%EF%BD%83losed", "https://a.example/clo\u017fed", "https://a.example/c\u2113osed", "https://a.example/\u24d2losed", "https://a.example/\U0001d41closed", "https://a.example/x/.\u3002/closed", "https://a.example/x\uff0f..\uff0fclosed", "https://a.example/closed\u00a0",
		"file:///srv/\u00e9t", "file:///srv/e\u0301t", "file:///srv/e%CC%81t", "file:///srv/%C3%A9t", "file:///srv/\u1112\u1161",
	} {
		require.False(t, closed.OffersURI(uri), "%q", uri)
	}
	for _, uri := range []string{
		"https://a.example/open", "https://a.example:9443/closed", "http://[2001:db8::1]/x", "http://[::2]:8080/x", "http://127.0.0.2/x", "https://a.example/open;v=1/x", "https://a.example/open%20x", "https://a.example/a.b?q=x", "https://a.example/\u00fc",
		"file:///srv/\u0439\u03b1/\u65e5\u672c\u30ac/\ud55c\u05d0\u0627", "file:///srv/%E6%97%A5",
	} {
		require.True(t, closed.OffersURI(uri), "%q", uri)
	}
}
