# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A stand-in of AWX's API: objects in memory, with the fields and the refusals of AWX 24.6.1. It runs no jobs.

The fields are in resources.yml. As AWX does, it ignores fields that it does not know, and refuses what awx/README.md
lists under "Limits of AWX".
"""

from __future__ import annotations

import itertools
import json
import re
import typing as t
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

import yaml

RESOURCES = yaml.safe_load(Path(__file__).with_name("resources.yml").read_text())
TOKEN = "secret"
ROOT = "/api/v2/"
# Templates that jobs, schedules and nodes of workflows start.
UNIFIED = ("job_templates", "workflow_job_templates", "projects", "inventory_sources", "workflow_approval_templates")
# Which objects a field refers to, where its name does not say it.
REFERENCES = {
    "default_environment": "execution_environments",
    "inventory": "inventories",
    "signature_validation_credential": "credentials",
    "source_project": "projects",
    "webhook_credential": "credentials",
}
LISTS = {"galaxy_credentials": "credentials"} | dict.fromkeys(
    ("success_nodes", "failure_nodes", "always_nodes"), "workflow_job_template_nodes"
)
PYTHON_TYPES = {"boolean": bool, "integer": int, "id": int, "string": str}
# Fields of nodes and schedules that need a prompt of the template: its name differs for extra_data.
PROMPTS = ("inventory", "limit", "job_type", "job_tags", "skip_tags", "diff_mode", "verbosity", "forks", "timeout")
PROMPT_NAMES = {"job_tags": "tags"}
# The fields whose values together belong to one object. The organization of a template is that of its project.
UNIQUE = {
    "organizations": ("name",),
    "credential_types": ("name", "kind"),
    "credentials": ("name", "organization", "credential_type"),
    "execution_environments": ("name",),
    "instance_groups": ("name",),
    "projects": ("name", "organization"),
    "inventories": ("name", "organization"),
    "inventory_sources": ("name", "inventory"),
    "job_templates": ("name", "organization"),
    "schedules": ("name", "unified_job_template"),
    "workflow_job_templates": ("name", "organization"),
    "workflow_job_template_nodes": ("identifier", "workflow_job_template"),
}
CREDENTIALS = {"Machine": "ssh", "Source Control": "scm", "Container Registry": "registry"}
CREDENTIALS["OpenShift or Kubernetes API Bearer Token"] = "kubernetes"
CREDENTIAL_KINDS = {"projects": ("scm",), "execution_environments": ("registry",)}
LINK_KINDS = {("organizations", "galaxy_credentials"): ("galaxy",)}
LINK_KINDS["job_templates", "credentials"] = ("ssh", "vault", "net", "cloud", "kubernetes")
QUESTIONS = ("text", "textarea", "password", "multiplechoice", "multiselect", "integer", "float")
# AWX offers as playbooks the YAML files at these levels that have plays.
PLAY = re.compile(r"^\s*-?\s*(hosts|import_playbook|ansible\.builtin\.import_playbook):", re.MULTILINE)

Object = t.Dict[str, t.Any]


class Refused(Exception):
    def __init__(self, body: t.Any, status: int = 400) -> None:
        super().__init__(body)
        self.body, self.status = body, status


class Awx:
    """``repositories``: a folder for each address of a git repository that projects may use."""

    def __init__(self, repositories: t.Mapping[str, Path]) -> None:
        self.repositories = repositories
        self.ids = itertools.count(1)
        self.objects: t.Dict[str, t.Dict[int, Object]] = {
            name: {} for name in (*RESOURCES, "workflow_approval_templates", "instances", "project_updates")
        }
        self.surveys: t.Dict[int, Object] = {}
        self.links: t.Dict[t.Tuple[int, str], t.List[int]] = {}
        self.requests: t.List[str] = []  # that changed something
        for name, kind in CREDENTIALS.items():
            self.add("credential_types", name=name, kind=kind, managed=True)
        galaxy = self.add("credential_types", name="Ansible Galaxy/Automation Hub API Token", kind="galaxy")
        self.add("credentials", name="Ansible Galaxy", credential_type=galaxy["id"], organization=None)

    def add(self, resource: str, **fields: t.Any) -> Object:
        number = next(self.ids)
        known = RESOURCES.get(resource, {})
        defaults = {name: field.get("default") for name, field in known.get("post", {}).items()}
        url = "%s%s/%d/" % (ROOT, resource, number)
        related = {name: "%s%s/" % (url, name) for name in known.get("related", ())}
        added = {**defaults, **fields, "id": number, "url": url, "type": resource[:-1], "related": related}
        self.objects[resource][number] = {"summary_fields": {}, **added}
        return self.objects[resource][number]

    def one(self, resource: str, **fields: t.Any) -> Object:
        """The only object with these values: for the tests."""
        (found,) = self.find(resource, fields)
        return found

    def linked(self, one: Object, relation: str) -> t.List[str]:
        """The names of the objects that another is linked to: for the tests."""
        objects = self.objects[LISTS.get(relation, relation)]
        links = [objects[number] for number in self.links.get((one["id"], relation), [])]
        return [linked.get("name") or linked["identifier"] for linked in links]

    # --- Requests -----------------------------------------------------------------------------------------------------

    def request(self, method: str, path: str, query: t.Mapping[str, str], data: Object) -> t.Tuple[int, t.Any]:
        resource, *rest = path.removeprefix(ROOT).strip("/").split("/")
        if resource not in (*self.objects, "unified_job_templates"):
            raise Refused({"detail": "Not found."}, 404)
        if method != "GET":
            self.requests.append("%s %s" % (method, path))
        if not rest:
            return (201, self.create(resource, data)) if method == "POST" else (200, page(self.find(resource, query)))
        one = self.objects[resource].get(int(rest[0]))
        if one is None:
            raise Refused({"detail": "Not found."}, 404)
        if rest[1:]:
            return self.relation(method, resource, one, rest[1], data)
        if method == "PATCH":
            self.check(resource, {**one, **written(resource, data)}, data)
            one.update(written(resource, data))
        if resource == "project_updates":
            self.finish(one)
        return 200, one

    def find(self, resource: str, query: t.Mapping[str, t.Any]) -> t.List[Object]:
        resources = UNIFIED if resource == "unified_job_templates" else (resource,)
        objects = [one for name in resources for one in self.objects[name].values()]
        either = {name[4:]: value for name, value in query.items() if name.startswith("or__")}
        every = {name: value for name, value in query.items() if not name.startswith("or__")}
        found = [one for one in objects if all(self.has(one, *item) for item in every.items())]
        return [one for one in found if not either or any(self.has(one, *item) for item in either.items())]

    def has(self, one: Object, name: str, value: t.Any) -> bool:
        """Whether an object has a value, also of an object that it refers to, such as organization__name."""
        field, _, further = name.partition("__")
        if further:
            other = self.objects[field + "s"].get(one.get(field) or 0)
            return other is not None and self.has(other, further, value)
        return str(one.get(field)) == str(value)

    def create(self, resource: str, data: Object) -> Object:
        fields = written(resource, data)
        self.check(resource, fields, data)
        if resource == "credential_types":
            fields["managed"] = False
        created = self.add(resource, **fields)
        if resource == "projects":
            created.update(playbooks=[], scm_revision="")
            created.update(status="pending", summary_fields={"current_update": self.update(created)})
        return created

    def update(self, project: Object) -> Object:
        return self.add("project_updates", project=project["id"], status="pending", finished=None, failed=False)

    def finish(self, update: Object) -> None:
        """Each question about an update brings it one step further."""
        update["status"] = {"pending": "running"}.get(update["status"], "successful")
        project = self.objects["projects"][update["project"]]
        project["status"] = update["status"]
        if update["status"] == "successful":
            folder = self.repositories[project["scm_url"]]
            project.update(summary_fields={}, scm_revision="1")
            update.update(finished="2026-01-01T02:00:00Z", scm_revision="1")
            project["playbooks"] = [path.name for path in folder.glob("*.yml") if PLAY.search(path.read_text())]

    # --- What AWX refuses ---------------------------------------------------------------------------------------------

    def check(self, resource: str, fields: Object, data: Object) -> None:
        """Refuse an object with wrong fields. ``data``: those of the request."""
        errors: t.Dict[str, t.List[str]] = {}
        for name, field in RESOURCES[resource]["post"].items():
            value = fields.get(name)
            if value is None:
                if field.get("required"):
                    errors[name] = ["This field is required."]
            elif value == "" and field.get("required"):
                errors[name] = ["This field may not be blank."]
            elif field["type"] == "choice":
                if value not in field["choices"]:
                    errors[name] = ['"%s" is not a valid choice.' % value]
            elif type(value) is not PYTHON_TYPES.get(field["type"], type(value)):
                errors[name] = ["Not a valid %s." % field["type"]]
            elif field["type"] == "id" and not self.exists(name, value):
                errors[name] = ['Invalid pk "%s" - object does not exist.' % value]
        for name, field in RESOURCES[resource]["post"].items():  # as the API stores null
            if name in data and data[name] is None and "" in field.get("choices", ()):
                data[name] = fields[name] = ""
        if errors:
            raise Refused(errors)
        credential = fields.get("credential")
        if credential and resource in CREDENTIAL_KINDS:
            self.refuse_kind(credential, CREDENTIAL_KINDS[resource])
        refuse = getattr(self, "refuse_" + resource, None)
        if refuse:
            refuse(fields)
        same = self.find(resource, {name: fields.get(name) for name in UNIQUE[resource]})
        if any(one["id"] != fields.get("id") for one in same):
            raise Refused({"__all__": ["%s with this name already exists." % resource]})

    def refuse_kind(self, credential: int, kinds: t.Sequence[str]) -> None:
        kind = self.objects["credential_types"][self.objects["credentials"][credential]["credential_type"]]["kind"]
        if kind not in kinds:
            raise Refused({"credential": ["Cannot assign a credential of kind %s." % kind]})

    def exists(self, field: str, number: int) -> bool:
        if field == "unified_job_template":
            return any(number in self.objects[name] for name in UNIFIED)
        return number in self.objects.get(REFERENCES.get(field, field + "s"), {number: {}})

    def refuse_job_templates(self, fields: Object) -> None:
        project = self.objects["projects"].get(fields.get("project") or 0)
        if project is None or fields.get("playbook") not in project["playbooks"]:
            raise Refused({"playbook": ["Playbook not found for project."]})
        if not fields.get("inventory") and not fields.get("ask_inventory_on_launch"):
            raise Refused({"inventory": ["You must either set a default value or ask to prompt on launch."]})
        fields["organization"] = project["organization"]

    def refuse_credential_types(self, fields: Object) -> None:
        known = {field["id"] for field in fields["inputs"].get("fields", ())} | {"tower"}
        for name, value in fields["injectors"].get("env", {}).items():
            for used in set(re.findall(r"{{\s*(\w+)", value)) - known:
                raise Refused({"injectors": ["%s uses an undefined field ('%s' is undefined)" % (name, used)]})

    def refuse_credentials(self, fields: Object) -> None:
        if not any(fields.get(owner) for owner in ("organization", "team", "user")):
            raise Refused({"detail": "Missing 'user', 'team', or 'organization'."})
        inputs = self.objects["credential_types"][fields["credential_type"]]["inputs"]
        for name in (fields.get("inputs") or {}).keys() - {field["id"] for field in inputs.get("fields", ())}:
            if inputs:  # those of AWX's own types are not known here
                raise Refused({"inputs": ["Additional properties are not allowed ('%s' was unexpected)" % name]})

    def refuse_inventory_sources(self, fields: Object) -> None:
        project = self.objects["projects"].get(fields.get("source_project") or 0)
        if fields["source"] == "scm" and (project is None or not project["scm_type"]):
            raise Refused({"detail": "Cannot use manual project for SCM-based inventory."})

    def refuse_schedules(self, fields: Object) -> None:
        for part in ("DTSTART", "RRULE:", "INTERVAL="):
            if part not in fields["rrule"]:
                raise Refused({"rrule": ["%s required in rrule." % part]})
        self.refuse_answers(self.template(fields), fields, "extra_data")

    def refuse_workflow_job_template_nodes(self, fields: Object) -> None:
        if fields.get("unified_job_template"):
            self.refuse_answers(self.template(fields), fields, "extra_data", incomplete=True)

    def template(self, fields: Object) -> Object:
        """What a node or schedule starts."""
        (template,) = self.find("unified_job_templates", {"id": fields["unified_job_template"]})
        return template

    def refuse_answers(self, template: Object, fields: Object, variables: str, incomplete: bool = False) -> None:
        """Refuse what a template does not ask. ``incomplete``: a workflow's launch may give the other answers."""
        answers = fields.get(variables) or {}
        rejected = self.rejected_prompts(template, fields)
        errors = {name: ["Field is not configured to prompt on launch."] for name in rejected}
        others = self.other_variables(template, answers)
        if others:
            errors[variables] = ["Variables %s are not allowed on launch." % ", ".join(others)]
        wrong = self.wrong_answers(template, answers, incomplete)
        if wrong:
            errors["variables_needed_to_start"] = wrong
        if errors:
            raise Refused(errors)

    def rejected_prompts(self, template: Object, fields: Object) -> t.List[str]:
        """The prompts that a template would ignore. A workflow has fewer, and drops the others in silence."""
        given = [name for name in PROMPTS if fields.get(name) not in (None, "", template.get(name))]
        return [name for name in given if template.get("ask_%s_on_launch" % PROMPT_NAMES.get(name, name)) is False]

    def questions(self, template: Object) -> t.List[Object]:
        return self.surveys.get(template["id"], {}).get("spec", []) if template.get("survey_enabled") else []

    def other_variables(self, template: Object, answers: Object) -> t.List[str]:
        """Those that a template does not ask."""
        if template.get("ask_variables_on_launch"):
            return []
        return sorted(answers.keys() - {question["variable"] for question in self.questions(template)})

    def wrong_answers(self, template: Object, answers: Object, incomplete: bool = False) -> t.List[str]:
        questions = [each for each in self.questions(template) if each["variable"] in answers or not incomplete]
        return [error for question in questions for error in wrong_answer(question, answers)]

    def cycle(self, start: int, goal: int) -> bool:
        """Whether links lead from a node to another."""
        relations = ("success_nodes", "failure_nodes", "always_nodes")
        following = [number for name in relations for number in self.links.get((start, name), ())]
        return start == goal or any(self.cycle(number, goal) for number in following)

    # --- Below an object ----------------------------------------------------------------------------------------------

    def relation(self, method: str, resource: str, one: Object, name: str, data: Object) -> t.Tuple[int, t.Any]:
        if name not in RESOURCES.get(resource, {}).get("related", ()):
            raise Refused({"detail": "Not found."}, 404)
        if name == "survey_spec":
            if method == "POST":
                self.surveys[one["id"]] = checked_survey(data)
            elif method == "DELETE":
                self.surveys.pop(one["id"], None)
            return 200, self.surveys.get(one["id"], {})
        if name == "launch":
            return self.launch(method, resource, one, data)
        if name == "update":
            return 202, self.update(one)
        if name == "create_approval_template":
            approval = self.add("workflow_approval_templates", **{"description": "", "timeout": 0, **data})
            one["unified_job_template"] = approval["id"]
            one["related"]["unified_job_template"] = approval["url"]
            return 201, approval
        links = self.links.setdefault((one["id"], name), [])
        if method == "GET":
            return 200, page([self.objects[LISTS.get(name, name)][number] for number in links])
        if data["id"] not in self.objects[LISTS.get(name, name)]:
            raise Refused({"msg": "%s not found." % name})
        if (resource, name) in LINK_KINDS and not data.get("disassociate"):
            self.refuse_kind(data["id"], LINK_KINDS[resource, name])
        if resource == "workflow_job_template_nodes" and name in LISTS and not data.get("disassociate"):
            if self.cycle(data["id"], one["id"]):
                raise Refused({"Error": "Cycle detected."})
        if name == "credentials" and resource == "job_templates" and not data.get("disassociate"):
            types = [self.objects[name][number]["credential_type"] for number in (*links, data["id"])]
            if len(set(types)) < len(types):
                raise Refused({"error": "Cannot assign multiple credentials of one type."})
        (links.remove if data.get("disassociate") else links.append)(data["id"])
        return 204, None

    def launch(self, method: str, resource: str, one: Object, data: Object) -> t.Tuple[int, t.Any]:
        answers = data.get("extra_vars") or {}
        if method == "GET":
            needed = [question["variable"] for question in self.questions(one) if question["required"]]
            return 200, {"variables_needed_to_start": needed, "node_prompts_rejected": self.rejected_nodes(one)}
        if resource == "workflow_job_templates":
            self.refuse_answers(one, data, "extra_vars")
        wrong = self.wrong_answers(one, answers)
        if wrong:
            raise Refused({"variables_needed_to_start": wrong})
        ignored = {name: data[name] for name in self.rejected_prompts(one, data)}
        others = self.other_variables(one, answers)
        if others:
            ignored["extra_vars"] = {name: answers[name] for name in others}
        return 201, {"ignored_fields": ignored}

    def rejected_nodes(self, workflow: Object) -> t.List[int]:
        """Also those that the answers of the workflow's launch make right."""
        rejected = []
        for node in self.find("workflow_job_template_nodes", {"workflow_job_template": workflow["id"]}):
            template = self.template(node)
            if self.rejected_prompts(template, node) or self.wrong_answers(template, node.get("extra_data") or {}):
                rejected.append(node["id"])
        return rejected


def written(resource: str, data: Object) -> Object:
    """The fields that AWX stores, whose text it strips."""
    known = {name: value for name, value in data.items() if name in RESOURCES[resource]["post"]}
    return {name: value.strip() if isinstance(value, str) else value for name, value in known.items()}


def page(objects: t.Sequence[Object]) -> Object:
    return {"count": len(objects), "next": None, "previous": None, "results": list(objects)}


def checked_survey(survey: Object) -> Object:
    for name in ("name", "description", "spec"):
        if name not in survey:
            raise Refused({"error": "Field '%s' is missing from survey spec." % name})
    if not survey["spec"]:
        raise Refused({"error": "'spec' doesn't contain any items."})
    variables = [question.get("variable") for question in survey["spec"]]
    for question in survey["spec"]:
        for name in ("type", "question_name", "variable", "required"):
            if name not in question:
                raise Refused({"error": "'%s' missing from survey question." % name})
        if question["type"] not in QUESTIONS:
            raise Refused({"error": "'%s' is not one of the allowed question types." % question["type"]})
        if question["type"] in ("multiplechoice", "multiselect") and "choices" not in question:
            raise Refused({"error": "Survey question of type %s must specify choices." % question["type"]})
        if variables.count(question["variable"]) > 1:
            raise Refused({"error": "'variable' '%s' duplicated in survey." % question["variable"]})
        if question.get("default") is not None and wrong_answer(question, {question["variable"]: question["default"]}):
            raise Refused({"error": "Default of %s does not answer the question." % question["variable"]})
    return survey


def wrong_answer(question: Object, answers: Object) -> t.List[str]:
    variable = question["variable"]
    if variable not in answers:
        return ["'%s' value missing" % variable] if question["required"] else []  # whatever its default
    answer = answers[variable]
    if question["type"] in ("text", "textarea") and not isinstance(answer, str):
        return ["Value %s for '%s' expected to be a string." % (answer, variable)]
    if question["type"] == "integer" and type(answer) is not int:
        return ["Value %s for '%s' expected to be an integer." % (answer, variable)]
    if question["type"] == "multiplechoice" and answer not in question["choices"]:
        return ["Value %s for '%s' expected to be one of %s." % (answer, variable, question["choices"])]
    size = len(answer) if isinstance(answer, str) else answer
    if question.get("min") is not None and size < question["min"]:
        return ["'%s' value %s is too small (must be at least %s)." % (variable, answer, question["min"])]
    if question.get("max") is not None and size > question["max"]:
        return ["'%s' value %s is too large (must be no more than %s)." % (variable, answer, question["max"])]
    return []


def serve(awx: Awx) -> ThreadingHTTPServer:
    """A server on a free port of the loopback interface; serve_forever starts it."""

    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            address = urlsplit(self.path)
            length = int(self.headers.get("Content-Length") or 0)
            try:
                if self.headers.get("Authorization") != "Bearer " + TOKEN:
                    raise Refused({"detail": "Authentication credentials were not provided."}, 401)
                data = json.loads(self.rfile.read(length) or "{}")
                status, body = awx.request(self.command, address.path, dict(parse_qsl(address.query)), data)
            except Refused as refused:
                status, body = refused.status, refused.body
            content = b"" if body is None else json.dumps(body).encode()
            self.send_response(status)
            for name, value in (("Content-Type", "application/json"), ("Content-Length", str(len(content)))):
                self.send_header(name, value)
            self.send_header("X-API-Product-Name", "AWX")
            self.send_header("X-API-Product-Version", "24.6.1")
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = do_PATCH = do_DELETE = answer

        def log_message(self, *_arguments: t.Any) -> None:
            pass

    return ThreadingHTTPServer(("127.0.0.1", 0), Handler)
