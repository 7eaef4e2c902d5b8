package resource

import (
	"bytes"
	"encoding/json"

	"github.com/mcpvisor/mcpvisor/internal/jsonscan"
)

// References returns the URI by which clients read what a server calls by its own URI. Its methods replace the URIs in
// what the server says; all other bytes are kept.
type References func(own string) string

// InTool replaces the URI of the user interface in the definition of a tool.
func (shown References) InTool(tool json.RawMessage) json.RawMessage {
	return shown.edit(tool, map[string]editor{"_meta": shown.inMeta})
}

// InResult replaces the URIs in the result of a tool, a prompt or a read: of its user interface, of links and of
// resources. What a tool has structured itself stays as it is.
func (shown References) InResult(result json.RawMessage) json.RawMessage {
	each := func(edit editor) editor {
		return func(value []byte) []byte {
			if value[0] != '[' {
				return edit(value)
			}
			return jsonscan.Edit(value, func(_ string, item []byte) []byte { return edit(item) })
		}
	}
	inMessage := func(value []byte) []byte { return shown.edit(value, map[string]editor{"content": each(shown.inBlock)}) }
	return shown.edit(result, map[string]editor{"_meta": shown.inMeta, "content": each(shown.inBlock), "contents": each(shown.inContents), "messages": each(inMessage)})
}

type editor func(value []byte) []byte

// MayRefer reports whether a text may have a URI that References replaces: the names of such members end alike but for
// one, unless they are escaped.
func MayRefer(text []byte) bool {
	return bytes.Contains(text, []byte(`ri"`)) || bytes.Contains(text, []byte(`outputTemplate"`)) || bytes.Contains(text, []byte(`\u`))
}

// edit edits members of an object.
func (References) edit(object []byte, members map[string]editor) []byte {
	if !MayRefer(object) {
		return object
	}
	return jsonscan.Edit(object, func(name string, value []byte) []byte {
		if edit := members[name]; edit != nil {
			return edit(value)
		}
		return value
	})
}

// inMeta edits a _meta (MCP Apps). Before 2026-01-26 the name of the member was ui/resourceUri, and ChatGPT's Apps SDK has its own.
func (shown References) inMeta(meta []byte) []byte {
	inUI := func(value []byte) []byte { return shown.edit(value, map[string]editor{"resourceUri": shown.uri}) }
	return shown.edit(meta, map[string]editor{"ui": inUI, "ui/resourceUri": shown.uri, "openai/outputTemplate": shown.uri})
}

// inBlock edits a block of content: a link, or a resource that is embedded.
func (shown References) inBlock(block []byte) []byte {
	members := map[string]editor{"_meta": shown.inMeta, "resource": shown.inContents}
	if kind, _ := jsonscan.ReadString(jsonscan.Member(block, "type")); kind == "resource_link" {
		members["uri"] = shown.uri
	}
	return shown.edit(block, members)
}

func (shown References) inContents(contents []byte) []byte {
	return shown.edit(contents, map[string]editor{"uri": shown.uri, "_meta": shown.inMeta})
}

func (shown References) uri(value []byte) []byte {
	own, err := jsonscan.ReadString(value)
	if err != nil || own == "" {
		return value
	}
	if uri := shown(own); uri != own {
		return jsonscan.Quote(uri)
	}
	return value
}
