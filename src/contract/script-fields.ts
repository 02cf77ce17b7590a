// The script of a browser or multistep monitor, with what it imports, in the public wire form.
import * as z from 'zod'

const path = z.string().min(1).max(1000)

/** The fields of monitors that are a script in themselves. */
export const scriptedFields = {
  script: z.string().min(1).max(1_048_576),
  /** Where the script lay in its project, so that its relative imports hold. */
  scriptPath: path.nullable().optional(),
  /** Files that the script imports, by their paths in the project. */
  dependencies: z
    .array(z.strictObject({ path, content: z.string().max(1_048_576) }))
    .max(1000)
    .nullable()
    .default([]),
  /** Settings of Playwright's `use`, as its configuration file has them. */
  playwrightConfig: z.record(z.string(), z.unknown()).nullable().optional(),
}
