package table_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/table"
)

func TestPrintTool(t *testing.T) {
	tools, err := table.ParseTools([]byte(`{"tools":[
		{"name":"fs/edit","server":"fs","definition":{"title":"Edit a file","description":"Edits.\n\nCarefully.\u001b[2J\n",
			"annotations":{"readOnlyHint":false,"destructiveHint":true,"idempotentHint":true,"openWorldHint":false},
			"inputSchema":{"type":"object","required":["path","edit"],"properties":{
				"path":{"type":"string","format":"uri","description":"Where.\nReally."},
				"edit":{"type":"object","description":"What.","required":["old"],"properties":{
					"old":{"type":"string"},"deep":{"type":"object","properties":{"x":{"type":"string"}}}}},
				"mode":{"enum":["fast","exact"],"default":"fast","description":"How."},
				"lines":{"type":"array","items":{"type":"integer"},"default":[1,2]}}}}},
		{"name":"fs/list","server":"fs","definition":{"title":"list","annotations":{"readOnlyHint":true,"destructiveHint":false},"inputSchema":{"type":"object"}}}]}`))
	require.NoError(t, err)
	var out strings.Builder
	for _, tool := range tools {
		require.NoError(t, table.PrintTool(&out, tool))
	}
	require.Equal(t, `fs/edit  (destructive, idempotent, closed world)
  Edit a file
  Edits.
  
  Carefully.[2J
  PARAMETER  TYPE       REQUIRED  DEFAULT  DESCRIPTION
  path       string     yes       -        format uri; Where. Really.
  edit       object     yes       -        What.
  edit.old   string     yes       -
  edit.deep  object     no        -
  mode       string     no        "fast"   one of fast, exact; How.
  lines      integer[]  no        [1,2]
  example: mcpvisor call fs/edit path=… edit:='{"old":"…"}'
fs/list  (read-only, not destructive)
  no parameters
`, out.String())
}

// A name that a server chose is no flag of the example.
func TestPrintTool_name_of_a_flag(t *testing.T) {
	tools, err := table.ParseTools([]byte(`{"tools":[{"name":"fs/x","server":"fs","definition":{"inputSchema":{"required":["--config","a"],"properties":{"--config":{"enum":["evil.json"]},"a":{"type":"integer"}}}}}]}`))
	require.NoError(t, err)
	var out strings.Builder
	require.NoError(t, table.PrintTool(&out, tools[0]))
	require.Contains(t, out.String(), "example: mcpvisor call fs/x a=3\n")
	require.Contains(t, out.String(), "--config   string   yes")
}
