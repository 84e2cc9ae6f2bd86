"""EndpointSlices (and the older Endpoints): which Pods stand behind a Service.

`addresses` says who stands behind it and how ready they are, `slices` packs them into slices of at
most a hundred with as few writes as possible, `legacy` spells the old Endpoints object, `plan`
joins them, `controller` ties them to the API. Everything but the controller is pure.
"""
