package custom

import (
	"bytes"
	"encoding/json"
	"errors"
	"strconv"

	sdkrpc "github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/mcpvisor/mcpvisor/internal/plainjson"
)

// errNoMessage is the error of a Read that returns neither a message nor an error.
var errNoMessage = errors.New("Read of the host's transport returned neither a message nor an error")

// appendMessage appends a message as one line. Results and params are written as they are,
// so that the reader of the line judges them as it judges those of any server.
func appendMessage(b []byte, message sdkrpc.Message) ([]byte, error) {
	start := len(b)
	switch m := message.(type) {
	case *sdkrpc.Request:
		if m == nil {
			return b, errNoMessage
		}
		b = append(b, `{"jsonrpc":"2.0"`...)
		if m.ID.IsValid() {
			b = appendID(append(b, `,"id":`...), m.ID)
		}
		b = plainjson.AppendString(append(b, `,"method":`...), m.Method)
		if len(m.Params) > 0 {
			b = append(append(b, `,"params":`...), m.Params...)
		}
	case *sdkrpc.Response:
		if m == nil {
			return b, errNoMessage
		}
		b = appendID(append(b, `{"jsonrpc":"2.0","id":`...), m.ID)
		switch {
		case m.Error != nil:
			b = appendError(append(b, `,"error":`...), m.Error)
		case len(m.Result) > 0:
			b = append(append(b, `,"result":`...), m.Result...)
		}
	default:
		return b, errNoMessage
	}
	// In JSON a line feed is white space; within a string it is not valid.
	for line := b[start:]; ; {
		i := bytes.IndexByte(line, '\n')
		if i < 0 {
			return append(b, "}\n"...), nil
		}
		line[i] = ' '
		line = line[i+1:]
	}
}

func appendID(b []byte, id sdkrpc.ID) []byte {
	switch v := id.Raw().(type) {
	case int64:
		return strconv.AppendInt(b, v, 10)
	case string:
		return plainjson.AppendString(b, v)
	}
	return append(b, "null"...)
}

// appendError appends the error of a response as the go-sdk encodes it: an error that wraps
// a *jsonrpc.Error has its code.
func appendError(b []byte, err error) []byte {
	wire := sdkrpc.Error{Message: err.Error()}
	var wrapped *sdkrpc.Error
	if errors.As(err, &wrapped) && wrapped != nil {
		wire.Code = wrapped.Code
		if json.Valid(wrapped.Data) {
			wire.Data = wrapped.Data
		}
	}
	text, _ := json.Marshal(wire) // it always marshals: its data is valid
	return append(b, text...)
}
