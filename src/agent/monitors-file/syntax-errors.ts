// Syntax errors of YAML, in messages of our own: those of the parser quote the text, which may be secret.
import { visit, type Document, type ErrorCode, type YAMLError } from 'yaml'

/** Errors looked at in one text; all after the first few follow from them. */
const ERRORS_MAX = 100
/** Nesting of lists and mappings. */
export const DEPTH_MAX = 64
export const TOO_DEEP = `lists and mappings are nested more than ${DEPTH_MAX} deep; nest them less`

/** One mistake of the writer, at an offset of the text. */
export interface SyntaxMistake {
  offset: number
  message: string
}

/** One mistake for each line, the most specific one: the others mostly follow from it. */
export function syntaxMistakes(text: string, document: Document.Parsed): SyntaxMistake[] {
  const errors = [...document.errors, ...document.warnings].slice(0, ERRORS_MAX)
  const quotes = errors.length === 0 ? [] : quotedTexts(document)
  const byLine = new Map<number, SyntaxMistake & { code: ErrorCode }>()
  for (const error of errors) {
    const quote = quotes.find((one) => isOpen(one, error, text))
    if (quote !== undefined) {
      const before = [...byLine.values()].filter(({ offset }) => offset < quote.start)
      return [...before, { offset: quote.start, message: OPEN_QUOTE }]
    }
    const mistake = { code: error.code, ...mistakeOf(error, errors, text) }
    const line = text.slice(0, mistake.offset).split('\n').length
    const known = byLine.get(line)
    const isSpecific = error.code === 'MISSING_CHAR' && known?.code !== 'RESOURCE_EXHAUSTION'
    if (known === undefined || (isSpecific && known.code !== 'MISSING_CHAR'))
      byLine.set(line, mistake)
  }
  return [...byLine.values()]
}

const OPEN_QUOTE = 'a quote opens here and is not closed on its line; add the closing quote'

interface Range {
  start: number
  end: number
}

function quotedTexts(document: Document.Parsed): Range[] {
  const found: Range[] = []
  visit(document, {
    Scalar(_, { type, range }) {
      if (type?.startsWith('QUOTE') === true && range)
        found.push({ start: range[0], end: range[1] })
    },
  })
  return found
}

/** Whether the error says that the closing quote is missing, or follows a quoted text of several lines. */
function isOpen({ start, end }: Range, { pos: [at], message }: YAMLError, text: string): boolean {
  if (message.startsWith('Missing closing')) return end === at
  if (message.startsWith('Comments must be')) return false
  const isLong = end <= at && text.slice(start, end).includes('\n')
  return isLong && !text.slice(end, at).includes('\n')
}

function mistakeOf(error: YAMLError, errors: readonly YAMLError[], text: string): SyntaxMistake {
  const { code, message } = error
  const [offset] = error.pos
  // `name: A`, then a deeper line with a key: the parser takes both lines for one key within a value.
  const same = errors.filter((one) => one.pos[0] === offset)
  const key = same.find((one) => one.code === 'MULTILINE_IMPLICIT_KEY')
  if (key !== undefined && same.some((one) => one.code === 'BLOCK_AS_IMPLICIT_KEY')) {
    return { offset: afterBlanks(text, text.lastIndexOf('\n', key.pos[1] - 1)), message: TOO_FAR }
  }
  const known = BY_MESSAGE.find(([pattern]) => pattern.test(message))?.[1]
  const isIndent = code === 'BAD_INDENT' || known === INDENT
  return { offset: isIndent ? afterBlanks(text, offset) : offset, message: known ?? SYNTAX[code] }
}

/** The offset of the first character that is no blank or line end. */
function afterBlanks(text: string, offset: number): number {
  const blanks = /\s*/y
  blanks.lastIndex = offset
  blanks.test(text)
  return blanks.lastIndex === text.length ? offset : blanks.lastIndex
}

const TOO_FAR = 'this line is indented too far; begin it in the same column as the key above it'
const INDENT =
  'wrong indentation; keys of one mapping, and dashes of one list, begin in the same column'

/** What the parser distinguishes by its message alone. */
const BY_MESSAGE: readonly (readonly [RegExp, string])[] = [
  [/end with a/, 'a bracket is not closed, or what is in it is not indented'],
  [/^Sequence item without/, INDENT],
  [/^Implicit map keys need/, 'a colon is missing after this key'],
  [/^Missing space after :/, 'a space is missing after the colon'],
  [/^Missing , /, 'a comma is missing before this'],
  [/^Comments must be/, 'a space is missing before the #; put a text with a # in quotes'],
]

const SYNTAX: Record<ErrorCode, string> = {
  ALIAS_PROPS: 'an alias (*name) can have no anchor and no tag',
  BAD_ALIAS: 'a bad alias or anchor name; put a text that begins with * or & in quotes',
  BAD_COLLECTION_TYPE: 'a tag (!…) does not fit what follows; leave it out',
  BAD_DIRECTIVE: 'a line that begins with % is a directive; put the text in quotes',
  BAD_DQ_ESCAPE: 'an unknown escape after \\; write \\\\ for a backslash, or use single quotes',
  BAD_INDENT: INDENT,
  BAD_PROP_ORDER: 'an anchor or tag in a wrong place',
  BAD_SCALAR_START: 'a text cannot begin with this character; put it in quotes',
  BLOCK_AS_IMPLICIT_KEY: 'two keys on one line; put a text that holds ": " in quotes',
  BLOCK_IN_FLOW: 'a comma is missing, or an indented list or mapping stands within [ ] or { }',
  DUPLICATE_KEY: 'the same key twice in one mapping; remove one',
  IMPOSSIBLE: 'is not valid YAML',
  KEY_OVER_1024_CHARS: 'a key longer than 1024 characters; is a quote or a line break missing?',
  MISSING_CHAR: 'something is missing here: a closing quote, bracket, colon or comma',
  MULTILINE_IMPLICIT_KEY: 'a key must stand on one line; is a colon or a quote missing above?',
  MULTIPLE_ANCHORS: 'two anchors (&name) for one value',
  MULTIPLE_DOCS: 'a second document begins here (---); a monitors file contains one',
  MULTIPLE_TAGS: 'two tags (!name) for one value',
  NON_STRING_KEY: 'a key must be a string',
  RESOURCE_EXHAUSTION: TOO_DEEP,
  TAB_AS_INDENT: 'a tab in the indentation; YAML allows spaces only',
  TAG_RESOLVE_FAILED: 'an unknown tag (!name); leave it out, or put the text in quotes',
  UNEXPECTED_TOKEN: 'not expected here; put the text in quotes, or look for what is missing above',
}
