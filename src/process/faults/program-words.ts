// Which words of a message are the program's own. A message is made of fixed text, which everybody can read
// in the program, and of values, which nobody else is to see; only what stands in the program is let out.
import { readdir, readFile } from 'node:fs/promises'
import { dirname, extname, join } from 'node:path'
import { existsSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { getSystemErrorMap } from 'node:util'

/** Stands for what is left out. */
export const LEFT_OUT = '…'

const SOURCES = new Set(['.ts', '.js', '.cjs', '.mjs'])
const TOKENS_MAX = 80
const FILES_AT_ONCE = 8

// Fixed words of the engine's own messages that this program may not hold itself.
const ENGINE_WORDS = new Set(
  `Cannot read set property properties of undefined null reading setting is not a an the function
  constructor iterable defined object instance Maximum call stack size exceeded Invalid invalid array length
  Class extends value Assignment to constant variable before initialization access out memory heap limit
  Unexpected token in JSON at position end input string number for type must be one argument received
  The Received this operation was aborted connect write read socket hang up closed timeout expected
  already been called header content character Error TypeError RangeError SyntaxError ReferenceError
  URIError EvalError AggregateError AbortError SystemError AssertionError new async as Object Promise Array
  Map Set Module Timeout Immediate Socket Server process anonymous eval get`.split(/\s+/),
)

/** The folder of the program: the nearest one above this file that holds its package.json. */
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
 * Those of `words` that stand as words in the text of the program in `folder`, or that the engine uses. The
 * text is read anew, in pieces, so that nothing of it stays in memory; what is not found within `wordsMs`
 * counts as not there.
 */
export async function wordsOfProgram(
  folder: string,
  words: Iterable<string>,
  wordsMs: number,
): Promise<Set<string>> {
  const system = new Set([...getSystemErrorMap().values()].map(([name]) => name))
  const known = new Set<string>()
  const open = new Set<string>()
  for (const word of words) {
    if (ENGINE_WORDS.has(word) || system.has(word)) known.add(word)
    else if (/^[A-Za-z_$#]/.test(word) && open.size < TOKENS_MAX) open.add(word)
  }
  const source = existsSync(join(folder, 'src'))
    ? join(folder, 'src')
    : dirname(fileURLToPath(import.meta.url))
  const files = (await readdir(source, { recursive: true })).filter(
    (name) => SOURCES.has(extname(name)) && !name.includes('node_modules'),
  )
  const endsAtMs = performance.now() + wordsMs
  for (let at = 0; at < files.length && open.size > 0; at += FILES_AT_ONCE) {
    if (performance.now() > endsAtMs) break
    const reading = files
      .slice(at, at + FILES_AT_ONCE)
      .map((name) => readFile(join(source, name), 'utf8').catch(() => ''))
    for (const text of await Promise.all(reading)) {
      for (const word of open) {
        if (!hasWord(text, word)) continue
        known.add(word)
        open.delete(word)
      }
    }
  }
  return known
}

function hasWord(text: string, word: string): boolean {
  for (let at = text.indexOf(word); at !== -1; at = text.indexOf(word, at + 1)) {
    if (!isOfWord(text[at - 1]) && !isOfWord(text[at + word.length])) return true
  }
  return false
}

function isOfWord(character: string | undefined): boolean {
  return character !== undefined && /[\p{L}\p{N}_$]/u.test(character)
}

const ADDRESSES = /[A-Za-z][A-Za-z0-9+.-]*:\/\/\S*/g
const QUOTED = /(["'`])(?:(?!\1)[^\\]|\\.)*\1/g
// The name of a property stands in the program, or is left out like any other word.
const NAMED_PROPERTY = /\b(reading|setting) '([A-Za-z_$][\w$]*)'/g
const TOKEN = /[^\s()[\]{}<>,;!?"'`|]+/g
const EDGES = /^[.:=-]+|[.:=-]+$/g

/** The words of a text that `onlyWords` looks at. */
export function wordsIn(text: string): string[] {
  return (bare(text).match(TOKEN) ?? []).map((token) => token.replaceAll(EDGES, ''))
}

/** The text without any word but these: addresses, what is quoted, numbers and all the rest left out. */
export function onlyWords(text: string, known: ReadonlySet<string>): string {
  return bare(text)
    .replaceAll(TOKEN, (token) => {
      const word = token.replaceAll(EDGES, '')
      return word === '' || known.has(word) ? token : LEFT_OUT
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
