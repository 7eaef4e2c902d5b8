//go:build linux

package integration

// The outsides of answers. What names the call that it answers fails or
// answers that call at once; what does not is skipped and counted.
var stdioIDRows = map[string]stdioRow{
	"id/float":       tolerated,
	"id/exponent":    tolerated,
	"id/string":      tolerated,
	"id/negative":    checked(silent, nil),
	"id/huge":        checked(silent, nil),
	"id/infinite":    checked(silent, nil),
	"id/rounded":     tolerated, // ids stay below 2^31
	"id/null":        everywhere(silent),
	"id/array":       silent,
	"id/object":      silent,
	"id/true":        silent,
	"id/wrong":       everywhere(checked(silent, requireUnmatched)),
	"id/missing":     silent,
	"id/deep":        silent,
	"id/long":        silent,
	"id/escaped-key": tolerated,
	"id/twice":       tolerated,
	"id/last":        tolerated,

	"answer/version-1":      tolerated,
	"answer/no-version":     tolerated,
	"answer/both":           {end: ending{is: append(refused.is, broken.is...), outcome: refused.outcome}},
	"answer/neither":        unread,
	"answer/both-null":      unread,
	"answer/error-null":     unread,
	"answer/with-method":    {limit: soon, end: ending{is: timesOut.is, orNone: true}},
	"answer/result-twice":   tolerated,
	"answer/unquoted":       checked(silent, requireJunk),
	"answer/trailing-comma": {limit: soon, end: ending{is: append(timesOut.is, broken.is...)}},
	"answer/nan":            unread,

	"error/text":            everywhere(stdioRow{end: refused}),
	"error/number":          unread,
	"error/no-code":         {end: refused},
	"error/code-text":       {end: ending{is: append(refused.is, broken.is...), outcome: refused.outcome}},
	"error/code-float":      {end: ending{is: append(refused.is, broken.is...), outcome: refused.outcome}},
	"error/code-huge":       {end: ending{is: append(refused.is, broken.is...), outcome: refused.outcome}},
	"error/message-object":  {end: ending{is: append(refused.is, broken.is...), outcome: refused.outcome}},
	"error/empty":           {end: refused},
	"error/large-data":      {end: refused},
	"error/large-message":   {end: refused},
	"error/code-of-the-sdk": everywhere(stdioRow{end: refused}),
	"error/closed":          {end: refused},
}
