// The output of `vedette apply`: the plan in lines for people, and the platform's objections at their places in
// the file.
import type { FileBundle } from './apply-bundles.ts'
import type { ApplyAnswer, ApplyProblem, PlannedChange } from '../contract/api/apply.ts'
import { bytesText, counted } from '../contract/schema/amounts.ts'
import { inColumns } from '../process/columns.ts'
import { paint } from '../process/pretty-line.ts'
import { createFindings, type Findings, type Path } from '../agent/monitors-file/problems.ts'
import type { LoadedFile } from '../agent/monitors-file/file.ts'

const ACTIONS = {
  create: { sign: '+', style: 'green', label: 'to create' },
  update: { sign: '~', style: 'yellow', label: 'to update' },
  delete: { sign: '-', style: 'red', label: 'to delete' },
  unchanged: { sign: ' ', style: 'reset', label: 'unchanged' },
} as const

/** Changed places that one line names; the rest is counted. */
const PLACES_SHOWN_MAX = 8

/** The plan: a line for each bundle to upload, each change, and a line that counts them. */
export function planText(
  { plan }: Pick<ApplyAnswer, 'plan'>,
  bundles: readonly FileBundle[],
  colour: boolean,
): string {
  const changes = plan.filter(({ action }) => action !== 'unchanged')
  const rows = [
    ...bundles.map((one) => ({ action: ACTIONS.create, kind: 'bundle', text: bundleText(one) })),
    ...changes.map((one) => ({
      action: ACTIONS[one.action],
      kind: one.kind,
      text: subjectOf(one),
    })),
  ]
  const lines = inColumns(rows.map(({ action, kind, text }) => [`  ${action.sign} ${kind}`, text]))
  const coloured = lines.map((line, at) => paint(colour, rows[at]?.action.style ?? 'reset', line))
  return [...coloured, countsOf(plan), ''].join('\n')
}

const HASH_CHARS = 12

function bundleText({ from, sha256, bytes, files }: FileBundle): string {
  const count = files === undefined ? '' : `, ${counted(files, 'file')}`
  return `${shownName(from)}: ${sha256.slice(0, HASH_CHARS)}${count}, ${bytesText(bytes, 'up')}`
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
  const parts = Object.entries(ACTIONS).flatMap(([action, { label }]) => {
    const count = plan.filter((one) => one.action === action).length
    return count === 0 ? [] : [`${count} ${label}`]
  })
  return parts.length === 0 ? 'nothing in the file' : parts.join(', ')
}

/** Whether the plan changes anything. */
export function changesAnything({ plan }: ApplyAnswer): boolean {
  return plan.some(({ action }) => action !== 'unchanged')
}

/** The platform's objections as findings in the file. */
export function findingsOf(problems: readonly ApplyProblem[], file: LoadedFile): Findings {
  const findings = createFindings()
  const places = new Map(file.monitors.map(({ id }, index) => [id, index]))
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
