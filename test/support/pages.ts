// The manual pages as tests read them: their tables, code blocks, headings and sentences.
import { globSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'

const root = new URL('../..', import.meta.url).pathname

/** Path → text of the README and of every page next to code and tests. */
export const pages: ReadonlyMap<string, string> = new Map(
  ['README.md', 'SECURITY.md', ...globSync('{src,test,docker}/**/README.md', { cwd: root })].map(
    (path) => [path, readFileSync(join(root, path), 'utf8')],
  ),
)

/** Text of a page; empty where there is none. */
export const page = (path: string): string => pages.get(path) ?? ''

/** Path of a type's page: the folder of PLAYWRIGHT is `suite`. */
export function pageOf(checkType: string): string {
  const definition = globSync('src/monitors/*/definition.ts', { cwd: root }).find((path) =>
    readFileSync(join(root, path), 'utf8').includes(`checkType: '${checkType}'`),
  )
  return join(dirname(definition ?? ''), 'README.md')
}

/** A page with the pages that it links to, one text. */
export function withLinkedPages(path: string): string {
  const linked = [...page(path).matchAll(/\]\(([^)#\s]+\.md)/g)].map(([, to = '']) =>
    page(join(dirname(path), to)),
  )
  return [page(path), ...linked].join('\n')
}

/** A table: its head and its rows, cells trimmed. */
export interface Table {
  head: string[]
  rows: string[][]
}

/** The tables of a text, in order. */
export function tablesIn(text: string): Table[] {
  return [...text.matchAll(/(?:^\|.*\|\n)+/gm)].map(([table]) => {
    const [head = [], , ...rows] = table
      .trimEnd()
      .split('\n')
      .map((line) =>
        line
          .slice(1, -1)
          .split(' | ')
          .map((cell) => cell.trim()),
      )
    return { head, rows }
  })
}

/** The part of a page below a heading of level 2, without it; undefined where there is no such heading. */
export function chapter(text: string, heading: string): string | undefined {
  const [, ...chapters] = text.split(/^## /m)
  const found = chapters.find((one) => one.startsWith(`${heading}\n`))
  return found?.slice(heading.length + 1)
}

/** Code blocks of a language. */
export function blocksOf(language: string, text: string): string[] {
  return [...text.matchAll(/^```(\w*)\n([\s\S]*?)^```$/gm)].flatMap(([, of, block = '']) =>
    of === language ? [block] : [],
  )
}

/** Code spans and code blocks. */
export const codeIn = (text: string): string[] =>
  [...text.matchAll(/^```[\s\S]*?^```$|`[^`\n]*`/gm)].map(([one]) => one)

/** Names in code spans and code blocks. */
export const codeNamesIn = (text: string): Set<string> =>
  new Set(
    codeIn(text)
      .join(' ')
      .match(/[A-Za-z_][A-Za-z0-9_]*/g),
  )

/** Anchors of headings as GitHub makes them. */
export function anchorsIn(text: string): string[] {
  return [...text.matchAll(/^#+ (.*)$/gm)].map(([, heading = '']) =>
    heading
      .toLowerCase()
      .replaceAll(/[^\p{L}\p{N} _-]/gu, '')
      .replaceAll(' ', '-'),
  )
}

const LIST_ITEM = /^\s*(?:[-*]|\d+\.) +/

/** Sentences outside code blocks, tables and headings; a code span is one word. */
export function sentencesIn(text: string): string[] {
  const prose = text.replaceAll(/^```[\s\S]*?^```$|^[|#].*$/gm, '')
  return prose.split(/\n\s*\n|\n(?=\s*(?:[-*]|\d+\.) )/).flatMap((paragraph) =>
    paragraph
      .replace(LIST_ITEM, '')
      .replaceAll(/\s+/g, ' ')
      .replaceAll(/`[^`]*`/g, 'Code')
      .replaceAll(/\[([^\]]*)\]\([^)]*\)/g, '$1')
      .split(/(?<=[.!?:]\**) (?=["“*(]*\p{Lu})/u),
  )
}

/** Words of a sentence. */
export const wordsOf = (sentence: string): number =>
  sentence.split(' ').filter((word) => /[\p{L}\p{N}]/u.test(word)).length

/** Whether each field of `shown` is in `real`, with a value of the same kind; a list shows some of the elements. */
export function hasForm(shown: unknown, real: unknown): boolean {
  if (Array.isArray(shown)) {
    return Array.isArray(real) && shown.every((one) => real.some((other) => hasForm(one, other)))
  }
  if (typeof shown !== 'object' || shown === null) return typeof shown === typeof real
  if (typeof real !== 'object' || real === null) return false
  return Object.entries(shown).every(
    ([key, value]) =>
      Object.hasOwn(real, key) && hasForm(value, (real as Record<string, unknown>)[key]),
  )
}
