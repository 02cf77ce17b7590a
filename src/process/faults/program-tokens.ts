// Redaction of fault messages. The fixed text of a message stands in the program's source and is public; values
// are private. Only tokens found in the source are reported.
import { readdir, readFile } from 'node:fs/promises'
import { dirname, extname, join } from 'node:path'
import { existsSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { getSystemErrorMap } from 'node:util'

/** Placeholder for redacted text. */
export const LEFT_OUT = '…'

const SOURCES = new Set(['.ts', '.js', '.cjs', '.mjs'])
const TOKENS_MAX = 80
const FILES_AT_ONCE = 8

// Tokens of the engine's own messages, which the program's source may not contain.
const ENGINE_TOKENS = new Set(
  `Cannot read set property properties of undefined null reading setting is not a an the function
  constructor iterable defined object instance Maximum call stack size exceeded Invalid invalid array length
  Class extends value Assignment to constant variable before initialization access out memory heap limit
  Unexpected token in JSON at position end input string number for type must be one argument received
  The Received this operation was aborted connect write read socket hang up closed timeout expected
  already been called header content character Error TypeError RangeError SyntaxError ReferenceError
  URIError EvalError AggregateError AbortError SystemError AssertionError new async as Object Promise Array
  Map Set Module Timeout Immediate Socket Server process anonymous eval get`.split(/\s+/),
)

/** The folder of the program: the nearest one above this file with its package.json. */
export function programFolder(): string {
  let folder = dirname(fileURLToPath(import.meta.url))
  const own = folder
  while (!existsSync(join(folder, 'package.json'))) {
    const above = dirname(folder)
    if (above === folder) return own
    folder = above
  }
  return folder
}

/**
 * Filters `tokens`: returns those in the source of the program in `folder`, or used by the engine. The source
 * is read again for each call, so it does not stay in memory. Tokens not found within `tokensMs` count as unknown.
 */
export async function tokensOfProgram(
  folder: string,
  tokens: Iterable<string>,
  tokensMs: number,
): Promise<Set<string>> {
  const system = new Set([...getSystemErrorMap().values()].map(([name]) => name))
  const known = new Set<string>()
  const open = new Set<string>()
  for (const piece of tokens) {
    if (ENGINE_TOKENS.has(piece) || system.has(piece)) known.add(piece)
    else if (/^[A-Za-z_$#]/.test(piece) && open.size < TOKENS_MAX) open.add(piece)
  }
  const source = existsSync(join(folder, 'src'))
    ? join(folder, 'src')
    : dirname(fileURLToPath(import.meta.url))
  const files = (await readdir(source, { recursive: true })).filter(
    (name) => SOURCES.has(extname(name)) && !name.includes('node_modules'),
  )
  const endsAtMs = performance.now() + tokensMs
  for (let at = 0; at < files.length && open.size > 0; at += FILES_AT_ONCE) {
    if (performance.now() > endsAtMs) break
    const reading = files
      .slice(at, at + FILES_AT_ONCE)
      .map((name) => readFile(join(source, name), 'utf8').catch(() => ''))
    for (const text of await Promise.all(reading)) {
      for (const piece of open) {
        if (!hasToken(text, piece)) continue
        known.add(piece)
        open.delete(piece)
      }
    }
  }
  return known
}

function hasToken(text: string, piece: string): boolean {
  for (let at = text.indexOf(piece); at !== -1; at = text.indexOf(piece, at + 1)) {
    if (!isTokenCharacter(text[at - 1]) && !isTokenCharacter(text[at + piece.length])) return true
  }
  return false
}

function isTokenCharacter(character: string | undefined): boolean {
  return character !== undefined && /[\p{L}\p{N}_$]/u.test(character)
}

const ADDRESSES = /[A-Za-z][A-Za-z0-9+.-]*:\/\/\S*/g
const QUOTED = /(["'`])(?:(?!\1)[^\\]|\\.)*\1/g
// The name of a property occurs in the program, or is left out like any other token.
const NAMED_PROPERTY = /\b(reading|setting) '([A-Za-z_$][\w$]*)'/g
const TOKEN = /[^\s()[\]{}<>,;!?"'`|]+/g
const EDGES = /^[.:=-]+|[.:=-]+$/g

/** The tokens of a text that `onlyKnownTokens` checks. */
export function tokensIn(text: string): string[] {
  return (bare(text).match(TOKEN) ?? []).map((token) => token.replaceAll(EDGES, ''))
}

/** The text with only known tokens; addresses, quoted text, numbers and all other tokens are redacted. */
export function onlyKnownTokens(text: string, known: ReadonlySet<string>): string {
  return bare(text)
    .replaceAll(TOKEN, (token) => {
      const piece = token.replaceAll(EDGES, '')
      return piece === '' || known.has(piece) ? token : LEFT_OUT
    })
    .replaceAll(/…(?:[\s…]*…)+/g, LEFT_OUT)
    .trim()
}

function bare(text: string): string {
  return text
    .replaceAll(ADDRESSES, LEFT_OUT)
    .replaceAll(NAMED_PROPERTY, '$1 $2')
    .replaceAll(QUOTED, LEFT_OUT)
}
