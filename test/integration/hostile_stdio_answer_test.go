//go:build linux

package integration

import "github.com/mcpvisor/mcpvisor"

// stdioAnswerRows are about the envelope of answers. An answer whose id names the call ends
// the call at once, with a result or an error. Any other answer is discarded and
// counted.
var stdioAnswerRows = map[string]stdioRow{
	"id/float":       tolerated,
	"id/exponent":    tolerated,
	"id/string":      tolerated,
	"id/negative":    checked(unansweredCall, nil),
	"id/huge":        checked(unansweredCall, nil),
	"id/infinite":    checked(unansweredCall, nil),
	"id/rounded":     tolerated, // ids stay below 2^31
	"id/null":        inBothEras(unansweredCall),
	"id/array":       unansweredCall,
	"id/object":      unansweredCall,
	"id/true":        unansweredCall,
	"id/wrong":       inBothEras(checked(unansweredCall, requireUnmatched)),
	"id/missing":     unansweredCall,
	"id/deep":        unansweredCall,
	"id/long":        unansweredCall,
	"id/escaped-key": tolerated,
	"id/twice":       tolerated,
	"id/last":        tolerated,

	"answer/version-1":      tolerated,
	"answer/no-version":     tolerated,
	"answer/both":           {end: ending{oneOf: append(rpcError.oneOf, protocolError.oneOf...), outcome: rpcError.outcome}},
	"answer/neither":        undecodable,
	"answer/both-null":      undecodable,
	"answer/error-null":     undecodable,
	"answer/with-method":    {limit: shortTimeout, end: ending{oneOf: timesOut.oneOf, orSuccess: true}},
	"answer/result-twice":   tolerated,
	"answer/unquoted":       checked(unansweredCall, requireJunk),
	"answer/trailing-comma": {limit: shortTimeout, end: ending{oneOf: append(timesOut.oneOf, protocolError.oneOf...)}},
	"answer/nan":            undecodable,

	"error/text":              inBothEras(stdioRow{end: rpcError}),
	"error/number":            undecodable,
	"error/no-code":           {end: rpcError},
	"error/no-id":             inBothEras(stdioRow{end: failsWith(mcpvisor.ErrRPC, mcpvisor.OutcomeUnknown)}),
	"error/no-id-then-answer": inBothEras(tolerated),
	"error/code-text":         {end: ending{oneOf: append(rpcError.oneOf, protocolError.oneOf...), outcome: rpcError.outcome}},
	"error/code-float":        {end: ending{oneOf: append(rpcError.oneOf, protocolError.oneOf...), outcome: rpcError.outcome}},
	"error/code-huge":         {end: ending{oneOf: append(rpcError.oneOf, protocolError.oneOf...), outcome: rpcError.outcome}},
	"error/message-object":    {end: ending{oneOf: append(rpcError.oneOf, protocolError.oneOf...), outcome: rpcError.outcome}},
	"error/empty":             {end: rpcError},
	"error/large-data":        {end: rpcError},
	"error/large-message":     {end: rpcError},
	"error/code-of-the-sdk":   inBothEras(stdioRow{end: rpcError}),
	"error/closed":            {end: rpcError},
}
