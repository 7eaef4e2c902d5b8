package gateway

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"

	"github.com/mcpvisor/mcpvisor"
)

// rawServer is a server in memory with one tool, x, whose calls are answered with a text: the
// members of the message after its id, or a result. For "params" it is the params of the first call.
func rawServer(result string) *mcpvisor.InMemory {
	return &mcpvisor.InMemory{Serve: func(_ context.Context, in io.ReadCloser, out io.WriteCloser, _ io.Writer) error {
		lines := bufio.NewReader(in)
		for {
			line, err := lines.ReadBytes('\n')
			if err != nil {
				return nil //nolint:nilerr // the end
			}
			var m struct {
				ID     json.RawMessage `json:"id"`
				Method string          `json:"method"`
				Params json.RawMessage `json:"params"`
			}
			if json.Unmarshal(line, &m) != nil || m.ID == nil {
				continue
			}
			answer := `"result":{}`
			switch m.Method {
			case "initialize":
				answer = `"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"raw","version":"1"}}`
			case "tools/list":
				answer = `"result":{"tools":[{"name":"x","inputSchema":{"type":"object"}}]}`
			case "tools/call":
				if result == "params" {
					result = `{"content":[],"structuredContent":` + string(m.Params) + `}`
				}
				if answer = result; result[0] == '{' {
					answer = `"result":` + result
				}
			case "server/discover":
				answer = `"error":{"code":-32601,"message":"no"}`
			}
			if _, err := fmt.Fprintf(out, `{"jsonrpc":"2.0","id":%s,%s}`+"\n", m.ID, answer); err != nil {
				return err
			}
		}
	}}
}
