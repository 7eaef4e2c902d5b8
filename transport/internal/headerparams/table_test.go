package headerparams

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/transport"
)

// A later list without the annotation of an argument removes the header of the argument.
func TestTable_annotationRemoved(t *testing.T) {
	var p Table
	call := transport.Request{Target: "t", Params: []byte(`{"name":"t","arguments":{"a":"x"}}`)}
	learnAndSet := func(listing string) http.Header {
		h := make(http.Header)
		p.Learn([]byte(listing), true, 100)
		p.AddTo(h, call)
		return h
	}
	require.Equal(t, http.Header{"Mcp-Param-A": {"x"}}, learnAndSet(`{"tools":[null,{"name":"t","inputSchema":{"properties":{"a":{"type":"string","x-mcp-header":"a"}}}}]}`))
	require.Len(t, learnAndSet(`{"tools":[{"name":"other"}]}`), 1)
	require.Empty(t, learnAndSet(`{"tools":[{"name":"t","inputSchema":{"properties":{"a":{"x-mcp-header":"no token"}}}}]}`))
}

// Tools that the lists no longer contain are dropped, and at most maxTools tools of one
// list are stored.
func TestTable_toolsDropped(t *testing.T) {
	const pages, tools = 4, 50
	var p Table
	page := func(reading, number int) []byte {
		var b strings.Builder
		for i := range tools {
			fmt.Fprintf(&b, `,{"name":"t%d-%d-%d","inputSchema":{"properties":{"a":{"type":"string","x-mcp-header":"a"}}}}`, reading, number, i)
		}
		return []byte(`{"tools":[` + b.String()[1:] + `]}`)
	}
	for reading := range 20 {
		for number := range pages {
			p.Learn(page(reading, number), number == 0, pages*tools)
		}
		require.LessOrEqual(t, len(p.tools), 2*pages*tools)
		h := make(http.Header)
		p.AddTo(h, transport.Request{Target: fmt.Sprintf("t%d-0-0", reading), Params: []byte(`{"arguments":{"a":"x"}}`)})
		require.Len(t, h, 1, "the tools of the newest list are stored")
	}
	p.Learn([]byte(`{"tools":[]}`), true, 100)
	p.Learn([]byte(`{"tools":[]}`), true, 100)
	require.Empty(t, p.tools)
	p.Learn(page(0, 0), true, 10)
	p.Learn(page(0, 1), false, 10)
	require.Len(t, p.tools, 10, "maxTools bounds the tools of one reading")
}
