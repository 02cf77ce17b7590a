// Output of `vedette doctor`: a table, or one JSON object.
import { existsSync } from 'node:fs'
import { counted } from '../../contract/schema/amounts.ts'
import { paint } from '../../process/pretty-line.ts'
import type { Environment } from '../../process/env.ts'
import { type Finding, PROBED, type Standing } from './finding.ts'

const PLACES = {
  container: 'in a container',
  kubernetes: 'in Kubernetes',
  machine: 'on a machine',
} as const
type Place = keyof typeof PLACES

/** Detects where this process runs. */
export function placeOf(env: Environment): Place {
  if ((env['KUBERNETES_SERVICE_HOST'] ?? '') !== '') return 'kubernetes'
  // Our images set VEDETTE_IMAGE; not every container engine creates a marker file.
  const isContainer =
    env['VEDETTE_IMAGE'] !== undefined ||
    existsSync('/.dockerenv') ||
    existsSync('/run/.containerenv')
  return isContainer ? 'container' : 'machine'
}

export interface ReportHead {
  version: string
  image: string
  /** Of the process; undefined where the system has none. */
  userId: number | undefined
  place: Place
}

const MARKS: Readonly<Record<Standing, string>> = {
  works: '✓',
  warning: '!',
  broken: '✗',
  absent: '–',
}
const STYLES = { works: 'green', warning: 'yellow', broken: 'red', absent: 'gray' } as const

/** A line for each finding and for its fix, then the summary. */
export function doctorTable(
  head: ReportHead,
  findings: readonly Finding[],
  colour: boolean,
): string {
  const width = Math.max(...Object.values(PROBED).map((name) => name.length))
  const user = head.userId === undefined ? '' : `, user ${head.userId}`
  const lines = findings.flatMap(({ id, standing, says, fix }) => {
    const mark = paint(colour, STYLES[standing], MARKS[standing])
    const line = `${mark} ${PROBED[id].padEnd(width)}  ${says}`
    if (fix === undefined) return [line]
    // Nothing is broken: no line of its own.
    if (standing === 'absent') return [`${line}: ${fix}`]
    return [line, `  ${' '.repeat(width)}  fix: ${fix}`]
  })
  const title = `Vedette ${head.version}, image ${head.image}, ${PLACES[head.place]}${user}`
  return [title, '', ...lines, '', summaryOf(findings), ''].join('\n')
}

/** Earlier ids, in output for one version. */
const FORMER_IDS: Partial<Record<Finding['id'], string>> = { sandbox: 'cage' }

/** One object on one line. `formerId` and `mend` are the earlier names, for one version. */
export function doctorJson(head: ReportHead, findings: readonly Finding[]): string {
  const all = findings.map((one) => ({ ...one, formerId: FORMER_IDS[one.id], mend: one.fix }))
  return `${JSON.stringify({ ...head, works: isSound(findings), findings: all })}\n`
}

/** Whether everything needed works. */
export function isSound(findings: readonly Finding[]): boolean {
  return findings.every(({ standing }) => standing !== 'broken')
}

function summaryOf(findings: readonly Finding[]): string {
  const count = (wanted: Standing) => findings.filter((one) => one.standing === wanted).length
  const [broken, warnings] = [count('broken'), count('warning')]
  const also = warnings === 0 ? '' : `; ${counted(warnings, 'warning')}`
  if (broken === 0) return `All required checks passed${also}.`
  return `${counted(broken, 'required check')} failed${also}.`
}
