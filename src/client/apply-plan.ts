// The output of `vedette apply`: the plan in lines for people, and the platform's objections at their places in
// the file.
import type { FileBundle } from './apply-bundles.ts'
import type {
  ApplyAction,
  ApplyAnswer,
  ApplyProblem,
  PlannedChange,
} from '../contract/api/apply.ts'
import { createFindings, type Findings, type Path } from '../agent/monitors-file/problems.ts'
import type { FileToApply } from '../agent/monitors-file/file.ts'

const SIGNS: Readonly<Record<ApplyAction, string>> = {
  create: '+',
  update: '~',
  delete: '-',
  unchanged: ' ',
}

const COLOURS: Readonly<Record<string, number>> = { '+': 32, '~': 33, '-': 31 }

/** Changed places that one line names; the rest is counted. */
const PLACES_SHOWN_MAX = 8

/** How the plan is shown. */
export interface PlanStyle {
  colour: boolean
  /** Code bundles that are uploaded before. */
  bundles?: readonly FileBundle[]
}

/** The plan: a line for each change, and a line that counts them. */
export function planText({ plan }: ApplyAnswer, { colour, bundles = [] }: PlanStyle): string {
  const changes = plan.filter(({ action }) => action !== 'unchanged')
  const all = [
    ...bundles.map((one) => ({ sign: SIGNS.create, kind: 'bundle', subject: bundleText(one) })),
    ...changes.map((one) => ({
      sign: SIGNS[one.action],
      kind: one.kind,
      subject: subjectOf(one),
    })),
  ]
  const width = Math.max(0, ...all.map(({ kind }) => kind.length))
  const lines = all.map(({ sign, kind, subject }) => {
    const line = `  ${sign} ${kind.padEnd(width)}  ${subject}`
    return colour ? `\u001B[${COLOURS[sign]}m${line}\u001B[0m` : line
  })
  return [...lines, countsOf(plan), ''].join('\n')
}

const HASH_CHARS = 12
const KIB = 1024

function bundleText({ from, sha256, bytes, files }: FileBundle): string {
  const size = bytes < KIB * KIB ? `${Math.ceil(bytes / KIB)} KiB` : `${mebibytes(bytes)} MiB`
  const count = files === undefined ? '' : `, ${files} ${files === 1 ? 'file' : 'files'}`
  return `${shownName(from)}: ${sha256.slice(0, HASH_CHARS)}${count}, ${size}`
}

function mebibytes(bytes: number): string {
  return (bytes / KIB / KIB).toFixed(1)
}

function subjectOf({ key, name, action, changes }: PlannedChange): string {
  const subject = name === key ? shownName(key) : `${shownName(key)} (${shownName(name)})`
  if (action !== 'update' || changes.length === 0) return subject
  const shown = changes.slice(0, PLACES_SHOWN_MAX).map(shownName)
  const more = changes.length - shown.length
  return `${subject}: ${shown.join(', ')}${more > 0 ? ` and ${more} more` : ''}`
}

/** Without control characters: names may come from anybody. */
function shownName(text: string): string {
  return text.replaceAll(/\p{Cc}|\p{Cf}/gu, '�')
}

function countsOf(plan: readonly PlannedChange[]): string {
  const count = (action: ApplyAction) => plan.filter((one) => one.action === action).length
  const parts = [
    [count('create'), 'to create'],
    [count('update'), 'to update'],
    [count('delete'), 'to delete'],
    [count('unchanged'), 'unchanged'],
  ].filter(([number]) => number !== 0)
  return parts.length === 0 ? 'nothing in the file' : parts.map((one) => one.join(' ')).join(', ')
}

/** Whether the plan changes anything. */
export function changesAnything({ plan }: ApplyAnswer): boolean {
  return plan.some(({ action }) => action !== 'unchanged')
}

/** The platform's objections as findings in the file. */
export function findingsOf(problems: readonly ApplyProblem[], file: FileToApply): Findings {
  const findings = createFindings()
  const places = new Map(file.monitors.map(({ monitor }, index) => [monitor.id, index]))
  for (const { kind, key, path, message } of problems) {
    findings.push({ path: [...placeOf(kind, key, places), ...path], message })
  }
  return findings
}

function placeOf(kind: string, key: string, places: ReadonlyMap<string, number>): Path {
  if (kind === 'group') return ['groups', key]
  if (kind === 'variable') return ['variables', key]
  const index = places.get(key)
  return index === undefined ? ['monitors'] : ['monitors', index]
}
