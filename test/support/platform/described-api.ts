// The public API without a database: its routes and their descriptions alone.
import type { OpenAPIHono } from '@hono/zod-openapi'
import { createApp, type AppOptions } from '../../../src/platform/app.ts'
import { artifactOperations } from '../../../src/platform/artifacts/routes.ts'
import { bundleOperations } from '../../../src/platform/code-bundles/routes.ts'
import { createRuns } from '../../../src/platform/runs/routes.ts'

/** The app of the platform, whose operations must not be called. */
export function describedApi(): OpenAPIHono {
  // Descriptions ask no database.
  const none = {} as never
  const files = [...artifactOperations(none), ...bundleOperations(none)]
  const operations = [...createRuns(none).operations, ...files]
  return createApp({ operations } as unknown as AppOptions).app
}
