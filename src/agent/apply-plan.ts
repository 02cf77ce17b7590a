// What `vedette apply` says: the plan in lines for people, and what the platform has against the file in
// the places of the file.
import type { ApplyAction, ApplyAnswer, ApplyProblem, PlannedChange } from '../contract/apply.ts'
import { createFindings, type Findings, type Path } from './monitors-file-problems.ts'
import type { FileToApply } from './monitors-file.ts'

const SIGNS: Readonly<Record<ApplyAction, string>> = {
  create: '+',
  update: '~',
  delete: '-',
  unchanged: ' ',
}

const COLOURS: Readonly<Record<string, number>> = { '+': 32, '~': 33, '-': 31 }

/** Changed places named of one thing; the rest is counted. */
const PLACES_SHOWN_MAX = 8

/** How the plan is shown. */
export interface PlanStyle {
  colour: boolean
}

/** The plan: a line for each change, and a line that counts them. */
export function planText({ plan }: ApplyAnswer, { colour }: PlanStyle): string {
  const changes = plan.filter(({ action }) => action !== 'unchanged')
  const width = Math.max(0, ...changes.map(({ kind }) => kind.length))
  const lines = changes.map((one) => {
    const sign = SIGNS[one.action]
    const line = `  ${sign} ${one.kind.padEnd(width)}  ${subjectOf(one)}`
    return colour ? `\u001B[${COLOURS[sign]}m${line}\u001B[0m` : line
  })
  return [...lines, countsOf(plan), ''].join('\n')
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
