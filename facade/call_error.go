package facade

import (
	"encoding/json"
	"strings"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/actors"
	"github.com/mcpvisor/mcpvisor/internal/display"
	"github.com/mcpvisor/mcpvisor/internal/jsonscan"
	"github.com/mcpvisor/mcpvisor/internal/secret"
)

// maxErrorText bounds how much of the text of a tool is searched for secrets. A record keeps far
// less, and no secret is as long.
const maxErrorText = 64 << 10

// recordedText is the error in the record of a call, without what the record has in other fields.
func recordedText(failure *mcpvisor.Error) string {
	shown := mcpvisor.Error{Kind: failure.Kind, Cause: failure.Cause, Hint: failure.Hint}
	return shown.Error()
}

// toolErrorText is the first text in the result of a tool that has failed by itself, without
// secrets of the server.
func toolErrorText(v *actors.View, result json.RawMessage) (text string) {
	jsonscan.EachItem(jsonscan.Member(result, "content"), func(item []byte) bool {
		text, _ = jsonscan.ReadString(jsonscan.Member(item, "text"))
		return text == ""
	})
	if text == "" {
		return ""
	}
	cut := display.Prefix(text, maxErrorText)
	var shown string
	if json.Unmarshal(v.Redact(jsonscan.Quote(cut)), &shown) != nil {
		return secret.Mask
	}
	if masked := strings.LastIndex(shown, secret.Mask); len(cut) < len(text) && masked >= 0 {
		shown = shown[:masked+len(secret.Mask)] // a part of another secret may be at the end
	}
	return shown
}
