// Package schema describes tools to language models in the form that each provider's API takes,
// and turns results of tools into text for them.
//
// [OpenAI], [OpenAIResponses], [Anthropic], [Gemini] and [Ollama] turn one tool into plain
// maps, lists, texts, numbers and booleans, as encoding/json makes them. So they fit into
// every SDK and every HTTP client. [List] does that for all tools of a client:
//
//	functions, notes := schema.List(client.Tools(), schema.OpenAI)
//
// The name of a function is the alias of its tool (mcpvisor.Alias), which every provider
// accepts: at most 64 characters of [A-Za-z0-9_-], beginning with a letter. The CallTool
// methods of facade.Client take the alias that the model answers with, so no table of
// names is necessary.
//
// # Repairs
//
// A provider that rejects one tool usually rejects the request, with all its tools. MCP servers
// may send any JSON Schema, and each provider accepts a different subset of it. So what a
// provider is known to reject is changed, and a [Note] says what, where and why:
//
//   - References ("$ref") are replaced by what they refer to. A recursive one is cut.
//   - Draft 4 and OpenAPI forms become those of draft 2020-12. Keywords with values of the
//     wrong type are removed.
//   - The top level becomes an object with properties; "anyOf", "oneOf" and "allOf" there
//     are combined. "allOf" is combined everywhere, and "oneOf" becomes "anyOf".
//   - "not", "if", "unevaluatedProperties" and the like are removed: where another change
//     allows more, they would forbid more.
//   - Beyond a depth of 32 (Gemini: 16), 5,000 schemas, or 1 MB of texts and values, any
//     value is allowed.
//   - Descriptions of functions are shortened to 1,024 characters for OpenAI.
//   - For Gemini and Ollama the keywords that they do not know are removed.
//   - Characters that a model reads and people do not see are removed: control characters
//     and escape sequences, tag characters, marks of the text direction, zero-width
//     characters and variation selectors where no script needs them. With them a server
//     could tell the model something that no user notices. Titles and descriptions lose the
//     characters. A property, an element of an enum or another value with such characters
//     is removed, because the server would not know a cleaned one.
//
// No change is meant to refuse arguments that the tool takes; the tests check this with random
// schemas and arguments. A change may allow more; the server, or facade.WithValidation, still
// checks the call. There are three exceptions. A property that only one alternative at the top
// level describes has that description in all of them. Parameters with unusual names are removed
// for Anthropic, which rejects them. Names and values with invisible characters are removed for
// all.
//
// The functions are pure: they change no input, share no memory with it, and return the
// same for the same tool, so that the prompt caches of providers hold. They may be called
// from many goroutines.
package schema
