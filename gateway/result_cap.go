package gateway

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/mcpvisor/mcpvisor/gateway/internal/listing"
	"github.com/mcpvisor/mcpvisor/gateway/internal/longresult"
	"github.com/mcpvisor/mcpvisor/gateway/internal/message"
)

// WithMaxResultBytes bounds the text in the result of a tool, as it is encoded in JSON. Of longer
// text the result has the beginning, and a link to a resource with the whole text, which is kept for
// 10 minutes and can be read by the same principal only, with the same profile. At most 64 MiB are
// kept for one principal and 256 MiB for all; the oldest go first. Text that does not fit is not
// shortened, and neither is anything but text: structured content, images and embedded resources
// are passed on as they are. 0 or less: nothing is shortened, which is the default.
func WithMaxResultBytes(n int) Option { return func(o *options) { o.maxResult = max(n, 0) } }

// maxResultNow is the bound of the text of a result; 0: none.
func (o *options) maxResultNow() int {
	if n := o.settings.load().MaxResultBytes; n > 0 {
		return n
	}
	return o.maxResult
}

// shortenResult shortens the text in the result of a tool to the bound. tool is the name by which the peer
// knows it.
func (c *connection) shortenResult(tool string, result json.RawMessage) json.RawMessage {
	return c.results.Shorten(longresult.Cut{Owner: c.owner, Tool: tool, Links: !c.noLinks.Load(), Limit: c.opts.maxResultNow()}, result)
}

// linkVersion is the first version with links to resources in results.
const linkVersion = "2025-06-18"

// speak notes the version of a session.
func (c *connection) speak(version string) { c.noLinks.Store(version < linkVersion) }

// readResult answers resources/read for the text of a result. It reports false if the URI is none of
// those.
func (c *connection) readResult(p *params) (result json.RawMessage, ok bool, err error) {
	id, ok := strings.CutPrefix(p.URI, longresult.Scheme)
	if !ok {
		return nil, false, nil
	}
	text, found := c.results.Get(c.owner, id)
	if !found {
		if slices.Contains(c.client.Servers(), longresult.Server) { // it may be a resource of that
			return nil, false, nil
		}
		return nil, true, notFound(&jsonrpc.Error{Code: codeResourceNotFound, Message: "no result " + message.Quote(p.URI) + " is kept; call the tool again"}, p)
	}
	uri, _ := json.Marshal(p.URI)
	result = slices.Concat([]byte(`{"contents":[{"uri":`), uri, []byte(`,"mimeType":"text/plain","text":`), text, []byte(`}],"ttlMs":0,"cacheScope":"`+listing.CacheScope+`"}`))
	if p.modern() {
		result = message.Modern(result)
	}
	return result, true, nil
}
