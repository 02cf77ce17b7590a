// The part of Helm's templates that the chart uses, and no more: whatever else stands in one is an error. It
// takes values as Helm does, the given ones over those of the chart.
import { stringify } from 'yaml'

/** What a template sees as `.`. */
export type Scope = Readonly<Record<string, unknown>>

type Words = string[]

/** Text, an action, or a block with what stands between it and its end. */
type Part = string | { words: Words } | { block: Words; inside: Part[]; otherwise: Part[] }

/** Renders a template; throws for what it does not know and for values that are not there. */
export function renderTemplate(template: string, root: Scope): string {
  const pieces = template.split(/(\{\{.*?\}\})/)
  const parts = blockOf(trimmed(pieces), undefined)
  return rendered(parts, { root, dot: root, variables: {} })
}

/** `{{-` takes the white space before it. The chart uses no `-}}`. */
function trimmed(pieces: string[]): string[] {
  return pieces.map((piece, at) => {
    if (piece.endsWith('-}}')) throw new Error(`${piece} trims what follows`)
    return pieces[at + 1]?.startsWith('{{-') === true ? piece.trimEnd() : piece
  })
}

function wordsOf(action: string): Words {
  return action.replace(/^\{\{-?\s*|\s*\}\}$/g, '').match(/"[^"]*"|:=|,|\||[^\s|,]+/g) ?? []
}

function blockOf(pieces: string[], opener: Words | undefined): Part[] {
  const parts: Part[] = []
  while (pieces.length > 0) {
    const piece = pieces.shift() as string
    if (!piece.startsWith('{{')) {
      parts.push(piece)
      continue
    }
    const words = wordsOf(piece)
    const [first = ''] = words
    if (['end', 'else'].includes(first)) {
      if (opener === undefined) throw new Error(`${piece} ends nothing`)
      pieces.unshift(piece)
      return parts
    }
    if (!['if', 'with', 'range'].includes(first)) {
      parts.push({ words })
      continue
    }
    const inside = blockOf(pieces, words)
    const hasElse = wordsOf(pieces.shift() as string)[0] === 'else'
    const otherwise = hasElse ? blockOf(pieces, words) : []
    if (hasElse) pieces.shift()
    parts.push({ block: words, inside, otherwise })
  }
  if (opener !== undefined) throw new Error(`${opener.join(' ')} has no end`)
  return parts
}

interface Place {
  root: Scope
  dot: unknown
  variables: Readonly<Record<string, unknown>>
}

function rendered(parts: readonly Part[], place: Place): string {
  return parts
    .map((part) => {
      if (typeof part === 'string') return part
      if ('words' in part) return text(piped(part.words, place))
      return renderedBlock(part.block, part.inside, part.otherwise, place)
    })
    .join('')
}

function renderedBlock(
  [keyword, ...words]: Words,
  inside: Part[],
  otherwise: Part[],
  place: Place,
): string {
  if (keyword === 'range') {
    const [key = '', comma, value = '', assign, ...path] = words
    if (comma !== ',' || assign !== ':=') throw new Error(`range ${words.join(' ')} is not known`)
    const entries = Object.entries(piped(path, place) as object).toSorted(([one], [other]) =>
      one < other ? -1 : 1,
    )
    return entries
      .map(([name, one]) => {
        const variables = { ...place.variables, [key]: name, [value]: one }
        return rendered(inside, { ...place, dot: one, variables })
      })
      .join('')
  }
  const not = words[0] === 'not'
  const value = piped(not ? words.slice(1) : words, place)
  if (isEmpty(value) !== not) return rendered(otherwise, place)
  return rendered(inside, keyword === 'with' ? { ...place, dot: value } : place)
}

function piped(words: Words, place: Place): unknown {
  const stages = words
    .join('\0')
    .split('\0|\0')
    .map((stage) => stage.split('\0'))
  const [first = [], ...functions] = stages
  const lead =
    first.length === 2 && first[0] === 'toYaml'
      ? stringify(valueAt(first[1] as string, place)).trimEnd()
      : only(first, place)
  return functions.reduce<unknown>((value, [name, ...rest]) => {
    if (name === 'quote' && rest.length === 0) return JSON.stringify(text(value))
    if (name === 'indent' && rest.length === 1) return indented(text(value), Number(rest[0]))
    if (name === 'default' && rest.length === 1) {
      return isEmpty(value) ? valueAt(rest[0] as string, place) : value
    }
    throw new Error(`${String(name)} ${rest.join(' ')} is not known`)
  }, lead)
}

function only(words: Words, place: Place): unknown {
  if (words.length !== 1) throw new Error(`${words.join(' ')} is not known`)
  return valueAt(words[0] as string, place)
}

function valueAt(path: string, { root, dot, variables }: Place): unknown {
  if (path === '.') return dot
  if (path.startsWith('$')) {
    if (!(path in variables)) throw new Error(`${path} is not set`)
    return variables[path]
  }
  if (!/^(?:\.[A-Za-z]+)+$/.test(path)) throw new Error(`${path} is not known`)
  return path
    .slice(1)
    .split('.')
    .reduce<unknown>((value, key) => {
      const object = value as Record<string, unknown>
      if (!(key in object)) throw new Error(`${path} is not there`)
      return object[key]
    }, root)
}

function indented(lines: string, columns: number): string {
  return lines.replaceAll(/^/gm, ' '.repeat(columns))
}

function isEmpty(value: unknown): boolean {
  if (typeof value === 'object' && value !== null) return Object.keys(value).length === 0
  return value === '' || value === 0 || value === false || value === undefined || value === null
}

function text(value: unknown): string {
  if (typeof value === 'string') return value
  if (typeof value === 'number' || typeof value === 'boolean') return String(value)
  throw new Error('only a plain value is a text')
}
