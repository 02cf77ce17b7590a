// The scripts of monitors, with what they import, in the public wire form.
import * as z from 'zod'
import { DEFAULT_RUNTIME } from './versions.ts'

const path = z.string().min(1).max(1000)

const dependencies = z
  .array(z.strictObject({ path, content: z.string().max(1_048_576) }))
  .max(1000)
  .nullable()

/** A set-up or tear-down script; an empty one is none, as clients of the public API send it. */
export const ScriptText = z.string().max(1_048_576).nullable().optional()
export const ScriptPath = z.string().max(1000).nullable().optional()
export const ScriptDependencies = dependencies.optional()

/** Ids of snippets; there are none to name. */
export const NoSnippet = z
  .int()
  .nullable()
  .optional()
  .refine((id) => (id ?? null) === null, {
    error: 'snippets are not supported; write the script itself into the script field',
  })

/** Whether anything of the text is code: not blank, and no comment. */
function hasCode(text: string): boolean {
  const noCode = /\s+|\/\/.*|\/\*[^]*?\*\//y
  while (noCode.test(text)) if (noCode.lastIndex === text.length) return false
  return text !== ''
}

/** The fields of monitors that are a script in themselves. */
export const scriptedFields = {
  script: z
    .string()
    .max(1_048_576)
    .refine(hasCode, {
      error: 'it contains no code; write the script, or remove the monitor',
    })
    .meta({ minLength: 1, pattern: '\\S' }),
  /** Where the script lay in its project, so that its relative imports hold. */
  scriptPath: path.nullable().optional(),
  /** Files that the script imports, by their paths in the project. */
  dependencies: dependencies.default([]),
  /** Settings of Playwright's `use`, as its configuration file has them. */
  playwrightConfig: z.record(z.string(), z.unknown()).nullable().optional(),
}

/** Requirement of a monitor with scripts: their runtime. */
export function scriptRequirements(monitor: Readonly<Record<string, unknown>>): string[] {
  const { runtimeId } = monitor as { runtimeId?: string | null }
  return [`runtime:${runtimeId ?? DEFAULT_RUNTIME}`]
}
